package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Two gates of one home, with pairInFlight calls under way in all at every
// moment, beside two floors. Most tools that people use take a while, so the
// upstream of "paced" answers a call after half to one and a half pairDelay, by
// the call's number, and what is measured is what comes on top. That of "flat
// out" answers at once, and what a call waits for there is the processor.
// Meanwhile both gates make a question each pairAsk, which goes into the database
// that they share.
const (
	pairInFlight = 200
	pairDelay    = 100 * time.Millisecond
	pairAsk      = 100 * time.Millisecond
)

const (
	paced50  measure = "two processes, 200 in flight, paced, p50 beyond the tool, ms"
	paced99  measure = "two processes, 200 in flight, paced, p99 beyond the tool, ms"
	pacedCPU measure = "two processes, 200 in flight, paced, CPU us a call"
	added50  measure = "two processes, 200 in flight, paced, p50 added, ms"
	added90  measure = "two processes, 200 in flight, paced, p90 added, ms"
	added99  measure = "two processes, 200 in flight, paced, p99 added, ms"
	flat50   measure = "two processes, 200 in flight, flat out, p50, ms"
	flat99   measure = "two processes, 200 in flight, flat out, p99, ms"
	flatCPU  measure = "two processes, 200 in flight, flat out, CPU us a call"
	asked    measure = "two gates, questions made meanwhile"
	locked   measure = "two gates, said that the database is locked"
)

// twoGates measures a round of it.
func (b *bench) twoGates(round int) {
	b.pairs(round, pairDelay, paced50, paced99, pacedCPU)
	b.pairs(round, 0, flat50, flat99, flatCPU)
}

// pairs loads two floors and two gates by turns.
func (b *bench) pairs(round int, delay time.Duration, p50, p99, cost measure) {
	all := map[string]*pair{}
	for _, t := range []target{floored, gated} {
		p, err := b.launchPair(t, delay)
		if err != nil {
			b.fault(t, string(p50), err)
			return
		}
		defer p.stop()
		all[t.name] = p
	}
	for range 2 * b.slices {
		for _, t := range b.shuffled([]target{floored, gated}) {
			if err := all[t.name].load(delay, b.pairTime); err != nil {
				b.fault(t, string(p50), err)
				return
			}
		}
	}
	for _, p := range all {
		p.stop()
		slices.Sort(p.took)
		b.table.add(p50, p.target, round, p.at(50))
		b.table.add(p99, p.target, round, p.at(99))
		b.table.add(cost, p.target, round, micros(p.cpu)/float64(len(p.took)))
	}
	floor, gate := all[floored.name], all[gated.name]
	if delay > 0 {
		b.table.add(added50, gated, round, gate.at(50)-floor.at(50))
		b.table.add(added90, gated, round, gate.at(90)-floor.at(90))
		b.table.add(added99, gated, round, gate.at(99)-floor.at(99))
	}
	b.table.add(asked, gated, round, float64(gate.questions))
	b.table.add(locked, gated, round, float64(gate.locked))
}

// pair is two processes of one target, and what came of loading them.
type pair struct {
	target    target
	processes []*process
	took      []time.Duration
	cpu       time.Duration
	questions int
	locked    int // times that lockedText was said
	stopped   bool
}

func (b *bench) launchPair(t target, delay time.Duration) (*pair, error) {
	home, err := b.pairHome(delay)
	if err != nil {
		return nil, err
	}
	two := &pair{target: t}
	for range 2 {
		cmd := b.serveHome(t, home)
		if t.name == floored.name {
			cmd = exec.Command(b.self, "floor", "-delay", delay.String())
		}
		p, err := b.await(cmd, t, 1, serverTools)
		if err != nil {
			two.stop()
			return nil, err
		}
		two.processes = append(two.processes, p)
	}
	return two, nil
}

func (two *pair) stop() {
	for _, p := range two.processes {
		if !two.stopped {
			p.stop()
			two.locked += p.last.locked
		}
	}
	two.stopped = true
}

// at is a percentile of what is sorted, in milliseconds.
func (two *pair) at(percent int) float64 {
	return millis(two.took[len(two.took)*percent/100])
}

// load loads both at once.
func (two *pair) load(delay, d time.Duration) (err error) {
	runs := make([]pairRun, len(two.processes))
	var wg sync.WaitGroup
	for i, p := range two.processes {
		wg.Go(func() {
			runs[i].load(p, pairInFlight/len(two.processes), delay, d, two.target.name == gated.name)
		})
	}
	wg.Wait()
	for _, r := range runs {
		two.took, two.cpu, two.questions, two.locked = append(two.took, r.took...), two.cpu+r.cpu, two.questions+r.questions, two.locked+r.locked
		err = errors.Join(err, r.err)
	}
	if err == nil && len(two.took) == 0 {
		err = errors.New("no call was answered")
	}
	return err
}

// lockedText is what SQLite says when it has waited for another's lock in vain.
const lockedText = "database is locked"

// pairHome makes a home whose echo is free and whose blob is put off until a
// person decides, which writes to the database and answers at once.
func (e env) pairHome(delay time.Duration) (string, error) {
	home, err := e.home(1, nil, func(int) (string, []string) {
		return e.self, []string{"upstream", "-tools", strconv.Itoa(serverTools), "-delay", delay.String()}
	})
	if err != nil {
		return "", err
	}
	file := filepath.Join(home, "config.jsonc")
	raw, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	var cfg map[string]any
	if err := json.Unmarshal(raw, &cfg); err != nil {
		return "", err
	}
	cfg["policy"] = map[string]any{"rules": []map[string]any{{"do": "defer", "tools": "s0/blob"}}}
	if raw, err = json.Marshal(cfg); err != nil {
		return "", err
	}
	return home, os.WriteFile(file, raw, 0o600)
}

// pairRun is what came of loading one of the two.
type pairRun struct {
	took              []time.Duration
	cpu               time.Duration
	questions, locked int
	err               error
}

// load keeps n echoes in flight for d, and, where it asks, makes a question
// every pairAsk, each of them another.
func (r *pairRun) load(p *process, n int, delay, d time.Duration, asks bool) {
	link, ok := p.link.(*pipes)
	if !ok {
		r.err = errors.New("only pipes are loaded in pairs")
		return
	}
	before, _ := cpuOf(p.cmd.Process.Pid)
	end := time.Now().Add(d)
	var mu sync.Mutex // guards began, and one line is written at a time
	began := map[string]time.Time{}
	next := func() error {
		mu.Lock()
		defer mu.Unlock()
		line := p.echo()
		began[string(member(line, `"id":`))] = time.Now()
		return link.send(line)
	}
	done := make(chan struct{})
	var others sync.WaitGroup
	others.Go(func() { // the first ones spread over the time of one call, as calls of many clients are
		for range n {
			time.Sleep(delay / time.Duration(n))
			if next() != nil {
				return // the reader says so
			}
		}
	})
	if asks {
		others.Go(func() {
			each := time.NewTicker(pairAsk)
			defer each.Stop()
			for {
				select {
				case <-done:
					return
				case <-each.C:
				}
				mu.Lock()
				err := link.send(p.blob(int(time.Now().UnixMicro() % 1e9)))
				mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	for ended := 0; ended < n && r.err == nil; {
		a, err := link.read()
		if err != nil {
			r.err = err
			break
		}
		now, id := time.Now(), string(member(a.head, `"id":`))
		mu.Lock()
		at, mine := began[id]
		delete(began, id)
		mu.Unlock()
		if !mine {
			r.question(a)
			continue
		}
		r.took = append(r.took, now.Sub(at)-lateness(a.head, delay))
		if r.err = checkEcho(a); now.After(end) {
			ended++
		} else if r.err == nil {
			r.err = next()
		}
	}
	close(done)
	others.Wait()
	after, _ := cpuOf(p.cmd.Process.Pid)
	r.cpu = after - before
}

func (r *pairRun) question(a answer) {
	r.questions++
	if !bytes.Contains(a.head, []byte("deferred [")) {
		r.err = fmt.Errorf("a question was answered with %s", a.head)
	}
	if bytes.Contains(a.head, []byte(lockedText)) {
		r.locked++
	}
}

// lateness is how long the upstream keeps an echo: as its text says, so that
// both sides of a proxy know.
func lateness(line []byte, delay time.Duration) time.Duration {
	at := bytes.Index(line, []byte("0000"))
	if at < 0 || delay == 0 {
		return 0
	}
	n, _ := strconv.Atoi(string(line[at : at+16]))
	return delay/2 + delay*time.Duration(n*37%100)/100
}

// serveLate answers each call a while after it came, the rest at once.
func (u *upstream) serveLate(r io.Reader, w io.Writer, delay time.Duration) error {
	in := bufio.NewReaderSize(r, 64<<10)
	var writing sync.Mutex
	write := func(answer []byte) {
		writing.Lock()
		defer writing.Unlock()
		_, _ = w.Write(answer) // a client that is gone ends the input as well
	}
	for {
		line, err := in.ReadBytes('\n')
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		answer := u.answer(nil, line)
		if bytes.Contains(line, []byte(`"tools/call"`)) {
			time.AfterFunc(lateness(line, delay), func() { write(answer) })
			continue
		}
		write(answer)
	}
}
