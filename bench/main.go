// Command bench measures mcp-gate as a user runs it: whole processes, with
// checks and audit on, beside the least that a proxy can be.
//
// Every target serves the same deterministic upstream (upstream.go) to the same
// client (client.go): "direct" is that upstream itself; "pipe" copies bytes;
// "floor" is a bare proxy that copies lines and tells several upstreams apart
// (floor.go); the rest is mcp-gate, built from this checkout. Within a round
// the targets are measured by turns in shuffled order, and a ratio compares
// figures of one round only. It judges nothing: figures are for people, who
// know what else the machine was doing.
//
//	go run ./bench            about four minutes on two cores
//	go run ./bench -quick     a look, in some twenty-five seconds
//	go run ./bench -json      the same figures as one JSON document
//
// What the figures were, and how to read them: docs/performance.md.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const gatePackage = "github.com/mcp-gate/mcp-gate/cmd/mcp-gate"

func main() {
	if err := run(os.Args[1:], os.Stdout, os.Stderr); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			os.Exit(2)
		}
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run is this program in one of its modes: without a word, or with a flag
// first, it measures; it starts itself in the others.
func run(args []string, stdout, stderr io.Writer) error {
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		return measureAll(args, stdout, stderr)
	}
	f := flag.NewFlagSet(args[0], flag.ContinueOnError)
	n := f.Int("n", 1, "upstreams")
	tools := f.Int("tools", serverTools, "tools of an upstream")
	web := f.Bool("http", false, "serve HTTP")
	unless := f.String("unless", "", "answer nothing where this file is")
	delay := f.Duration("delay", 0, "answer calls so much later")
	work := f.Duration("work", 0, "work so long, on the processor, before the first answer")
	if err := f.Parse(args[1:]); err != nil {
		return err
	}
	switch mode := args[0]; {
	case mode == "upstream" && *work > 0 && !exists(*unless):
		workFor(*work)
		return newUpstream(*tools).serve(os.Stdin, os.Stdout)
	case mode == "upstream" && *web:
		return newUpstream(*tools).serveHTTP()
	case mode == "upstream" && exists(*unless):
		_, err := io.Copy(io.Discard, os.Stdin)
		return err
	case mode == "upstream" && *delay > 0:
		return newUpstream(*tools).serveLate(os.Stdin, os.Stdout, *delay)
	case mode == "upstream":
		return newUpstream(*tools).serve(os.Stdin, os.Stdout)
	case mode == "floor" && *web:
		return floorHTTP(*n, *tools)
	case mode == "floor":
		return floorStdio(*n, upstreamArgs(*tools, *delay, *work))
	case mode == "pipe":
		return pipe(*tools)
	}
	return fmt.Errorf("unknown mode %q: want upstream, floor or pipe", args[0])
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

func measureAll(args []string, stdout, stderr io.Writer) (err error) {
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(stderr)
	rounds := f.Int("rounds", 0, "how often everything is measured (5; with -quick 1)")
	quick := f.Bool("quick", false, "a short look: less of everything, no long list")
	asJSON := f.Bool("json", false, "print one JSON document")
	only := f.String("only", "", "some parts only, by commas: calls, two, large, list, cold, accepted")
	gate := f.String("gate", "", "measure this mcp-gate instead of building one")
	profile := f.String("profile", "", "measure nothing: write profiles of the gate into this folder; -only takes calls, calls-meta, calls-http, trips, large, large-open, list")
	if err := f.Parse(args); err != nil {
		return err
	}
	e, err := newEnv(*gate)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(e.tmp)) }()
	if *profile != "" {
		return e.profileGate(*profile, *only, stderr)
	}
	b := &bench{env: e, plan: wholePlan, order: rand.New(rand.NewPCG(1, 0))} // the same order every time
	if *quick {
		b.plan = quickPlan
	}
	if *rounds == 0 {
		if *rounds = 5; *quick {
			*rounds = 1
		}
	}
	return b.report(*rounds, *only, *asJSON, stdout, stderr)
}

func (b *bench) report(rounds int, only string, asJSON bool, stdout, stderr io.Writer) error {
	var parts map[string]bool
	if only != "" {
		parts = map[string]bool{}
		for part := range strings.SplitSeq(only, ",") {
			parts[part] = true
		}
	}
	d := document{Date: time.Now(), Gate: b.version(), Machine: machine(), Load: []float64{load(), 0}, Rounds: rounds}
	failed := b.rounds(rounds, parts, func(s string) { fmt.Fprintf(stderr, "%4.0f s  %s\n", time.Since(d.Date).Seconds(), s) })
	d.Seconds, d.Load[1], d.Rows = rounded(time.Since(d.Date).Seconds()), load(), b.table.rows()
	for _, fault := range b.faults {
		d.Faults = append(d.Faults, fault.Error())
	}
	if asJSON {
		return errors.Join(d.writeJSON(stdout), failed)
	}
	return errors.Join(d.writeText(stdout), failed)
}

// newEnv finds this program and builds the gate, unless there is one.
func newEnv(gate string) (env, error) {
	self, err := os.Executable()
	if err != nil {
		return env{}, err
	}
	tmp, err := os.MkdirTemp("", "mcp-gate-bench")
	if err != nil {
		return env{}, err
	}
	e := env{self: self, gate: gate, tmp: tmp, n: new(int)}
	if gate == "" {
		e.gate = filepath.Join(tmp, "mcp-gate")
		if err := build("-o", e.gate, gatePackage); err != nil {
			return env{}, errors.Join(err, os.RemoveAll(tmp))
		}
	}
	return e, nil
}

func build(args ...string) error {
	if out, err := exec.Command("go", append([]string{"build"}, args...)...).CombinedOutput(); err != nil {
		return fmt.Errorf("build mcp-gate: %w\n%s", err, out)
	}
	return nil
}

func (e env) version() string {
	out, err := exec.Command(e.gate, "version").Output()
	if err != nil {
		return "mcp-gate"
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return line
}
