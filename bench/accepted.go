package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// What is on record is answered with at once, whoever is up. These are homes
// whose servers were all accepted while they lived, and of which, when it
// counts, one never answers and one is gone.
const (
	acceptedServers = 20
	hangingServer   = 1
	missingServer   = 2
)

const (
	acceptedInitialized measure = "cold, accepted, 20 servers, one hanging, one missing, initialize answered, ms"
	acceptedListed      measure = "cold, accepted, 20 servers, one hanging, one missing, complete list, ms"
)

// acceptedHome makes a home whose gate has seen all of its servers.
func (e env) acceptedHome(tools int) (string, error) {
	hang, missing := filepath.Join(e.tmp, "hang"), filepath.Join(e.tmp, "missing")
	for _, old := range []string{hang, missing} {
		if err := os.RemoveAll(old); err != nil {
			return "", err
		}
	}
	if err := os.Symlink(e.self, missing); err != nil {
		return "", err
	}
	home, err := e.home(acceptedServers, func(i int) (string, []string) {
		args := []string{"upstream", "-tools", strconv.Itoa(tools)}
		switch i {
		case hangingServer:
			args = append(args, "-unless", hang)
		case missingServer:
			return missing, args
		}
		return e.self, args
	})
	if err != nil {
		return "", err
	}
	if out, err := exec.Command(e.gate, "--home", home, "tools", "ls").CombinedOutput(); err != nil {
		return "", fmt.Errorf("see the servers once: %w: %.500s", err, out)
	}
	if out, err := exec.Command(e.gate, "--home", home, "accept").CombinedOutput(); err != nil {
		return "", fmt.Errorf("not all of the servers were accepted at first sight: %w: %.500s", err, out)
	}
	if err := os.Remove(missing); err != nil {
		return "", err
	}
	return home, os.WriteFile(hang, nil, 0o600)
}

// coldAccepted measures the way from nothing to the first complete list where
// all is on record, beside the floor, which waits for as many servers that live.
func (b *bench) coldAccepted(round int) {
	home, err := b.acceptedHome(serverTools)
	if err != nil {
		b.fault(wide, string(acceptedListed), err)
		return
	}
	for _, t := range b.shuffled(coldTargets) {
		var p *process
		var err error
		if t.name == floored.name {
			p, err = b.launch(t, acceptedServers, serverTools)
		} else {
			p, err = b.await(b.serveHome(t, home), t, acceptedServers, serverTools)
		}
		if err != nil {
			b.fault(t, string(acceptedListed), err)
			continue
		}
		b.table.add(acceptedInitialized, t, round, millis(p.initialized))
		b.table.add(acceptedListed, t, round, millis(p.listed))
		p.stop()
	}
}
