package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// What is on record is answered with at once, whoever is up. These are homes
// whose servers were all accepted while they lived, and of which, when it
// counts, one never answers and one is gone.
const (
	acceptedServers = 20
	hangingServer   = 1
	missingServer   = 2
)

// serverWork is what a server works before it first answers: nothing, and
// what a small server takes that runs on an interpreter. That of npm's
// server-filesystem on Node 20 takes half a second.
var serverWork = []time.Duration{0, 300 * time.Millisecond}

func acceptedMeasure(work time.Duration, what string) measure {
	return measure(fmt.Sprintf("cold, accepted, 20 servers that work %v to start, one hanging, one missing, %s, ms", work, what))
}

// record is a home whose gate has seen all of its servers.
type record struct {
	home string
	list map[string][sha256.Size]byte // by target: the list that was given at the first start
}

// accept makes such a home.
func (e env) accept(work time.Duration) (*record, error) {
	base := filepath.Join(e.tmp, "accepted-"+work.String())
	hang, missing := base+".hang", base+".missing"
	if err := os.Symlink(e.self, missing); err != nil {
		return nil, err
	}
	home, err := e.home(acceptedServers, nil, func(i int) (string, []string) {
		args := upstreamArgs(serverTools, 0, work)
		switch i {
		case hangingServer:
			args = append(args, "-unless", hang)
		case missingServer:
			return missing, args
		}
		return e.self, args
	})
	if err != nil {
		return nil, err
	}
	if out, err := exec.Command(e.gate, "--home", home, "accept").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("not all of the servers were accepted at first sight: %w: %.500s", err, out)
	}
	err = errors.Join(os.Remove(missing), os.WriteFile(hang, nil, 0o600))
	return &record{home, map[string][sha256.Size]byte{}}, err
}

// coldAccepted measures the way from nothing to the first complete list where
// all is on record, beside the floor, which waits for as many servers that live.
func (b *bench) coldAccepted(round int) {
	if !b.accepted {
		return
	}
	for i, work := range serverWork {
		listed := acceptedMeasure(work, "complete list")
		if len(b.records) == i {
			r, err := b.accept(work)
			if err != nil {
				b.fault(wide, string(listed), err)
				return
			}
			b.records = append(b.records, r)
		}
		for _, t := range b.shuffled(coldTargets) {
			p, err := b.startAccepted(t, b.records[i], work)
			if err != nil {
				b.fault(t, string(listed), err)
				continue
			}
			b.table.add(acceptedMeasure(work, "initialize answered"), t, round, millis(p.initialized))
			b.table.add(listed, t, round, millis(p.listed))
			p.stop()
		}
	}
}

func (b *bench) startAccepted(t target, r *record, work time.Duration) (*process, error) {
	if t.name == floored.name {
		t.command = selfCommand("floor", "-work", work.String())
		return b.launch(t, acceptedServers, serverTools)
	}
	p, err := b.await(b.serveHome(t, r.home), t, acceptedServers, serverTools)
	if err != nil {
		return nil, err
	}
	first, known := r.list[t.name]
	r.list[t.name] = p.list
	if p.asked > 1 || known && first != p.list {
		p.stop()
		return nil, errors.New("the first list was not complete, or not the same as at other starts")
	}
	return p, nil
}
