package main

import (
	"fmt"
	"io"

	"github.com/mcp-gate/mcp-gate/config"
	"github.com/mcp-gate/mcp-gate/inbox"
)

// tellLeftOut says which servers cannot be used as they are configured. A command
// that wants one server hears of that one only, see noServer.
func (e *engine) tellLeftOut(stderr io.Writer, o engineOptions) {
	for _, r := range e.cfg.Refused {
		for _, err := range r.Errors {
			switch {
			case o.serving:
				e.log.Error("a server is left out", "server", r.Alias, "error", err)
			case o.only == "":
				fmt.Fprintf(stderr, "mcp-gate: server %s is left out: %s\n", r.Alias, inbox.DisplayLine(err.Error()))
			}
		}
	}
}

// tellHeld says in one line that tools are held.
func (e *engine) tellHeld(stderr io.Writer) {
	held := 0
	for _, entry := range e.gate.Tools().Entries() {
		if standingText(e.gate, entry.ID) != "" {
			held++
		}
	}
	if held > 0 {
		fmt.Fprintf(stderr, "mcp-gate: held back: %s; mcp-gate accept shows which and why\n", many(held, "tool"))
	}
}

// noServer says why there is no server of this name; nil where there is one.
func noServer(cfg config.Config, alias string) error {
	if _, ok := cfg.Server(alias); ok {
		return nil
	}
	for _, r := range cfg.Refused {
		if r.Alias == alias {
			return usage(r.Errors)
		}
	}
	for _, r := range cfg.Disabled {
		if r.Alias == alias {
			return usage(fmt.Errorf("server %s is switched off in the configuration", alias))
		}
	}
	return usage(fmt.Errorf("there is no server %q in the configuration%s", alias, serverNames(cfg)))
}
