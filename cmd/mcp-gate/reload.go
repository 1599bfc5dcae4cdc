package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/mcp-gate/mcp-gate/config"
	"github.com/mcp-gate/mcp-gate/gate"
)

// reloadPause is how often a running gate looks whether its configuration was
// written.
const reloadPause = time.Second

// watch tells the gate what the owner says now, each time the configuration
// was written. One that has faults changes nothing, and each fault is logged.
func (e *engine) watch(ctx context.Context, a *app) error {
	own := []string{e.home.Config(), e.home.ConfigYAML()}
	seen, accepted := stamp(own...), stamp(e.home.Lock())
	timer := time.NewTicker(reloadPause)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		if now := stamp(own...); now != seen {
			seen = now
			e.reload(a)
		}
		if now := stamp(e.home.Lock()); now != accepted {
			accepted = now
			e.rejudge()
		}
	}
}

// rejudge holds what servers show against a record that another process wrote,
// so that a person's mcp-gate accept counts at once.
func (e *engine) rejudge() {
	e.offers.Lock()
	defer e.offers.Unlock()
	for _, alias := range e.acceptance.changed() {
		if listing, ok := e.pool.Listing(alias); ok {
			e.gate.Offer(alias, listing.Tools)
		}
	}
}

// stamp tells one state of files from another.
func stamp(paths ...string) string {
	var stamp string
	for _, path := range paths {
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err.Error()
		}
		stamp += path + info.ModTime().String() + info.Mode().String() + string(rune(info.Size()))
	}
	return stamp
}

// reload reads the configuration anew. Which servers run is settled at the
// start; everything else holds from the next call on.
func (e *engine) reload(a *app) {
	cfg, _, err := e.home.Load(a.env)
	if err != nil {
		var list config.ErrorList
		if !errors.As(err, &list) {
			list = nil
			e.log.Error("the configuration cannot be read: the old one stays in force", "error", err)
		}
		for _, fault := range list {
			e.log.Error("the configuration has a fault: the old one stays in force", "error", fault)
		}
		return
	}
	if !slices.EqualFunc(cfg.Servers, e.cfg.Servers, func(a, b config.Server) bool { return a.Alias == b.Alias && a.ID() == b.ID() }) {
		e.log.Warn("other servers are configured now: they take effect when the gate is started anew")
	}
	e.acceptance.replace(cfg)
	var servers []gate.Server
	for _, s := range cfg.Servers {
		servers = append(servers, gatedOf(s, cfg.Policy.Policy))
	}
	next := &engine{home: e.home, cfg: cfg, log: e.log, pool: e.pool}
	e.gate.Rule(next.gateOptions(servers, engineOptions{}, e.aud))
	e.log.Info("the configuration was read anew", "policy", policyVersion(cfg)[:12])
}
