package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

// target is something that a client can talk to.
type target struct {
	name  string
	floor string // the target it is held against
	proxy bool   // there is a process between client and upstream
	web   bool   // the client speaks HTTP to it
	echo  string // name of its echo tool
	meta  bool   // tools are called through call_tool_read

	// command makes the process for so many servers of so many tools.
	command func(e env, t target, servers, tools int) (*exec.Cmd, error)
	serve   []string       // further arguments of the gate
	server  map[string]any // further keys of its servers
}

var (
	direct  = target{name: "direct", floor: "floor", echo: "echo", command: selfCommand("upstream")}
	piped   = target{name: "pipe", floor: "floor", proxy: true, echo: "echo", command: selfCommand("pipe")}
	floored = target{name: "floor", floor: "floor", proxy: true, echo: "s0__echo", command: selfCommand("floor")}
	gated   = target{name: "gate transparent", floor: "floor", proxy: true, echo: "echo", command: gateCommand, serve: []string{"--exposure", "transparent"}}
	opened  = target{name: "gate open", floor: "floor", proxy: true, echo: "echo", command: gateCommand, serve: []string{"--exposure", "transparent"},
		server: map[string]any{"egress": []string{"metadata", "aggregates", "row_level", "rendered_pixels", "raw_pixels"}}} // what imitates the gate is looked for all the same
	metaed     = target{name: "gate meta", floor: "floor", proxy: true, echo: "s0/echo", meta: true, command: gateCommand, serve: []string{"--exposure", "meta"}}
	wide       = target{name: "gate direct", floor: "floor", proxy: true, echo: "s0_echo", command: gateCommand, serve: []string{"--exposure", "direct"}}
	directWeb  = target{name: "direct http", floor: "floor http", web: true, echo: "echo", command: selfCommand("upstream", "-http")}
	flooredWeb = target{name: "floor http", floor: "floor http", proxy: true, web: true, echo: "s0__echo", command: selfCommand("floor", "-http")}
	gatedWeb   = target{name: "gate http", floor: "floor http", proxy: true, web: true, echo: "echo", command: gateCommand,
		serve: []string{"--exposure", "transparent", "--http", "127.0.0.1:0"}}

	callTargets = []target{direct, piped, floored, gated, metaed, directWeb, flooredWeb, gatedWeb}
	blobTargets = []target{direct, piped, floored, gated, opened, directWeb, flooredWeb, gatedWeb} // not meta: it keeps what is large, and answers with a stub
	listTargets = []target{direct, floored, gated}
	coldTargets = []target{floored, wide, metaed}

	// targetNames is the order in which people read them.
	targetNames = names(direct, piped, floored, gated, opened, metaed, wide, directWeb, flooredWeb, gatedWeb)
)

func names(targets ...target) []string {
	var all []string
	for _, t := range targets {
		all = append(all, t.name)
	}
	return all
}

// env is what is needed to start targets.
type env struct {
	self string // this program
	gate string // mcp-gate
	tmp  string
	n    *int // counts the homes made in tmp
}

// selfCommand starts this program in a mode.
func selfCommand(mode string, args ...string) func(env, target, int, int) (*exec.Cmd, error) {
	return func(e env, _ target, servers, tools int) (*exec.Cmd, error) {
		all := append([]string{mode, "-n", strconv.Itoa(servers), "-tools", strconv.Itoa(tools)}, args...)
		return exec.Command(e.self, all...), nil
	}
}

// gateCommand starts mcp-gate as a user does, on a home of its own.
func gateCommand(e env, t target, servers, tools int) (*exec.Cmd, error) {
	home, err := e.home(servers, t.server, func(int) (string, []string) { return e.self, []string{"upstream", "-tools", strconv.Itoa(tools)} })
	if err != nil {
		return nil, err
	}
	return e.serveHome(t, home), nil
}

func (e env) serveHome(t target, home string) *exec.Cmd {
	return exec.Command(e.gate, append([]string{"--home", home, "serve"}, t.serve...)...)
}

// home makes one with so many servers. Their tools are declared, so that
// nobody is asked and the results may leave: what is measured is a call that
// runs.
func (e env) home(servers int, more map[string]any, command func(i int) (string, []string)) (string, error) {
	*e.n++
	home := filepath.Join(e.tmp, "home"+strconv.Itoa(*e.n))
	if err := os.Mkdir(home, 0o700); err != nil {
		return "", err
	}
	entries := map[string]any{}
	for i := range servers {
		program, args := command(i)
		entry := map[string]any{
			"command": program, "args": args,
			"tools": map[string]any{"*": map[string]string{"permission": "read", "egress": "metadata"}},
		}
		maps.Copy(entry, more)
		entries["s"+strconv.Itoa(i)] = entry
	}
	config, err := json.Marshal(map[string]any{"servers": entries, "log": map[string]string{"level": "warn"}})
	if err != nil {
		return "", err
	}
	return home, os.WriteFile(filepath.Join(home, "config.jsonc"), config, 0o600)
}

// launch starts a target and waits until its list is complete.
func (e env) launch(t target, servers, tools int) (*process, error) {
	cmd, err := t.command(e, t, servers, tools)
	if err != nil {
		return nil, err
	}
	return e.await(cmd, t, servers, tools)
}

// await starts a command of a target and waits until its list is complete.
func (e env) await(cmd *exec.Cmd, t target, servers, tools int) (*process, error) {
	want := servers * (tools - 2) // echo and blob are not counted
	if t.meta {
		want = 0
	}
	p, err := start(cmd, t.web, want)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", t.name, err)
	}
	p.before, p.after = fmt.Sprintf(`{"name":"%s","arguments":`, t.echo), "}"
	if t.meta {
		p.before, p.after = fmt.Sprintf(`{"name":"call_tool_read","arguments":{"name":"%s","arguments":`, t.echo), "}}"
	}
	if err := p.ready(); err != nil {
		p.stop()
		return nil, fmt.Errorf("start %s: %w", t.name, err)
	}
	return p, nil
}

// ready waits until calls arrive: a target whose list depends on no upstream
// may be there before its upstreams are.
func (p *process) ready() error {
	for deadline := time.Now().Add(startWait); ; time.Sleep(2 * time.Millisecond) {
		a, err := p.trip(p.echo())
		if err != nil {
			return err
		}
		if err = checkEcho(a); err == nil || time.Now().After(deadline) {
			return err
		}
	}
}
