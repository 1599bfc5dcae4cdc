package main

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"github.com/mcp-gate/mcp-gate/audit"
	"github.com/mcp-gate/mcp-gate/config"
	"github.com/mcp-gate/mcp-gate/engagement"
	"github.com/mcp-gate/mcp-gate/gate"
	"github.com/mcp-gate/mcp-gate/inbox"
)

// offline is an offlineGate of the home and configuration that the command line names.
func (a *app) offline() (*gate.Gate, error) {
	h, cfg, _, err := a.load()
	if err != nil {
		return nil, err
	}
	return offlineGate(h, cfg)
}

// offlineGate is a gate that starts no server and records nothing: it knows
// what is on record, and can say what a call would meet.
func offlineGate(home config.Home, cfg config.Config) (*gate.Gate, error) {
	e := &engine{home: home, cfg: cfg, log: slog.New(slog.DiscardHandler)}
	var servers []gate.Server
	for _, s := range cfg.Servers {
		servers = append(servers, gatedOf(s, cfg.Policy.Policy))
	}
	options := e.gateOptions(servers, engineOptions{exposure: gate.Meta}, discard{})
	options.Caller, options.Sessions = nobody{}, unspent{}
	options.Reach = func() inbox.Level { return inbox.L0 }
	options.Acceptance = newAcceptance(home, cfg, e.log)
	return gate.New(options)
}

// discard records nothing: what an offline gate says is no event.
type discard struct{}

func (discard) Record(audit.Event) error { return nil }

// unspent keeps no session and no account: nothing was used up.
type unspent struct{}

var errOffline = errors.New("no gate runs")

func (unspent) ChargeCall(context.Context, string, engagement.Spend) (bool, error) {
	return false, errOffline
}
func (unspent) ChargeBytes(context.Context, string, int64) error { return errOffline }
func (unspent) Spent(context.Context, string) (calls, resultBytes int64, err error) {
	return 0, 0, nil
}
func (unspent) KeepSession(context.Context, string, json.RawMessage, time.Time) error {
	return errOffline
}
func (unspent) Session(context.Context, string) (json.RawMessage, time.Time, error) {
	return nil, time.Time{}, errOffline
}

// nobody is a caller without servers.
type nobody struct{}

func (nobody) Call(context.Context, string, string, json.RawMessage, func(json.RawMessage)) (json.RawMessage, error) {
	return nil, errors.New("no server runs")
}
func (nobody) Up(string) error                    { return nil }
func (nobody) Settled(context.Context, ...string) {}
func (nobody) Shown(context.Context, string)      {}
func (nobody) About(string) gate.About            { return gate.About{} }
