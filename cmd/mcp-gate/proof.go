package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/mcp-gate/mcp-gate/config"
	"github.com/mcp-gate/mcp-gate/inbox"
)

// proofDoc says what a yes is worth at a home, as seen by who asks.
type proofDoc struct {
	Level    inbox.Level `json:"level"`
	Why      string      `json:"why"`
	Boundary bool        `json:"boundary"` // between who asks and the gate's keys, database and configuration
	Within   string      `json:"within,omitempty"`
}

// withinReach is what no key prevents where agents run as the user that the
// gate belongs to; docs/approval.md has the whole list and what shows each.
const (
	withinReach = "an agent that runs as this user can read and change what the gate keeps, and call servers without it"
	beforeAKey  = withinReach + "; it can enrol a key of its own as well, while there is none"
	besideAKey  = withinReach + "; it cannot sign with your key"
)

// proof looks at keys, database and configuration with the eyes of this
// process. A boundary is only there where the system keeps this user out of
// them: that somebody else's agents are kept out cannot be seen from inside.
func (a *app) proof(h config.Home) (doc proofDoc, err error) {
	doc.Boundary = true
	for _, path := range []string{h.Keys(), h.DB(), h.Dir} {
		if inReach(path) {
			doc.Boundary = false
		}
	}
	if _, err := os.Stat(h.Keys()); errors.Is(err, os.ErrNotExist) {
		return proofDoc{Level: inbox.L0, Why: "no approver key is enrolled, so what a client answers is all the proof there can be: mcp-gate approver enroll makes one", Within: beforeAKey}, nil
	}
	if doc.Boundary {
		doc.Level, doc.Why = inbox.L2, "the gate's keys, database and folder belong to another user, and this one cannot open them"
		return doc, nil
	}
	db, ring, _, err := openStore(h)
	if err != nil {
		return doc, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	doc.Within = besideAKey
	if doc.Level = ring.Reach(); doc.Level == inbox.L0 {
		doc.Within = beforeAKey
		doc.Why = "no approver key is enrolled, so what a client answers is all the proof there can be: mcp-gate approver enroll makes one"
		return doc, nil
	}
	doc.Why = fmt.Sprintf("an approver key is enrolled, and the gate's keys, database and configuration are within reach of this user%s. L2 needs the gate under another user, in a container or on another machine, and agents that reach it over HTTP with a token", userName())
	return doc, nil
}

func (d proofDoc) show(w io.Writer) {
	fmt.Fprintf(w, "proof  %v: %s\n", d.Level, d.Why)
	if d.Within != "" {
		fmt.Fprintf(w, "       %s (docs/approval.md)\n", d.Within)
	}
}

// inReach reports whether this process can open what is at path, for reading or
// writing.
func inReach(path string) bool {
	f, err := os.Open(path)
	if err == nil {
		_ = f.Close() // nothing was written
		return true
	}
	if !errors.Is(err, os.ErrPermission) {
		return !errors.Is(err, os.ErrNotExist)
	}
	if f, err = os.OpenFile(path, os.O_WRONLY, 0); err == nil {
		_ = f.Close()
		return true
	}
	return false
}

func userName() string {
	switch id := os.Geteuid(); id {
	case -1:
		return ""
	case 0:
		return " (root, who reaches those of every user)"
	default:
		return fmt.Sprintf(" (uid %d)", id)
	}
}
