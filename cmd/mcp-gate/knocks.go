package main

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/mcp-gate/mcp-gate/audit"
	"github.com/mcp-gate/mcp-gate/config"
	"github.com/mcp-gate/mcp-gate/transport"
)

// tokenNote is the audit line of what a token became: never its secret.
func tokenNote(what string, t transport.Token) audit.Event {
	note := "token " + t.ID + " was " + what
	if t.Principal != "" {
		note += fmt.Sprintf(" for %s, scope %v", t.Principal, t.Scope)
	}
	if len(t.Profiles) > 0 {
		note += ", profiles " + strings.Join(t.Profiles, ",")
	}
	if t.Parent != "" {
		note += ", parent " + t.Parent
	}
	return audit.Event{Kind: audit.Note, Principal: t.Principal, Outcome: audit.OK, Note: note}
}

// recordOnce writes a line into the home's audit log for a command that has no
// desk.
func recordOnce(home config.Home, e audit.Event) error {
	d := desk{home: home}
	err := d.record(e)
	if d.aud != nil {
		err = errors.Join(err, d.aud.Close())
	}
	return err
}

// knockEach is the time for which refused requests share a line: who has no
// token shall not fill the audit log.
const knockEach = time.Minute

// knocks writes down that somebody came without a token that is known: the
// first time at once, those of the next minute together.
type knocks struct {
	record func(audit.Event) error
	failed func(error)

	mu    sync.Mutex // guards what follows
	more  int        // since the last line
	last  string     // the last of them
	later *time.Timer
}

func (k *knocks) refused(reason, remote string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.more++
	k.last = fmt.Sprintf("%s; from %s", reason, remote)
	if k.later == nil {
		k.write()
		k.later = time.AfterFunc(knockEach, k.flush)
	}
}

// flush ends a minute. The next refusal is written at once.
func (k *knocks) flush() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.later != nil {
		k.later.Stop()
		k.later = nil
	}
	k.write()
}

// write is called with mu held.
func (k *knocks) write() {
	if k.more == 0 {
		return
	}
	note := "1 HTTP request refused: " + k.last
	if k.more > 1 {
		note = fmt.Sprintf("%d HTTP requests refused, the last one: %s", k.more, k.last)
	}
	err := k.record(audit.Event{Kind: audit.Refusal, Verdict: "deny", ErrorCode: "401", Rule: "http.token", Note: note})
	if err != nil {
		k.failed(err)
	}
	k.more = 0
}
