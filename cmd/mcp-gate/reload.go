package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mcp-gate/mcp-gate/config"
	"github.com/mcp-gate/mcp-gate/upstream"
)

// reloadPause is how often a running gate looks whether its configuration was
// written.
const reloadPause = time.Second

// reloadQuiet is how long a configuration must lie still before it is read:
// editors write in pieces, or put another file in its place.
const reloadQuiet = 300 * time.Millisecond

// reading is the configuration in force, and what is to be told of it.
type reading struct {
	cfg config.Config
	configDoc
}

// configDoc is what status says of a gate's configuration.
type configDoc struct {
	Read    time.Time `json:"read"`              // when the one in force was read
	Changes string    `json:"changes,omitempty"` // to the one before
	// Faults are those of the file that lies there now; the one in force is
	// older then.
	Faults []string `json:"faults,omitempty"`
}

// stamps tell what the owner's files were just before they were read: what is
// written after that is taken up, however soon.
type stamps struct{ config, lock string }

func stampsOf(h config.Home) stamps {
	return stamps{stamp(h.Config(), h.ConfigYAML()), stamp(h.Lock())}
}

// watch tells the gate what the owner says now, each time the configuration
// was written. One that has faults changes nothing.
func (e *engine) watch(ctx context.Context, a *app) error {
	own := []string{e.home.Config(), e.home.ConfigYAML()}
	seen, accepted := a.began.config, a.began.lock
	timer := time.NewTicker(reloadPause)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		if now := stamp(own...); now != seen {
			if seen = quiet(ctx, now, own...); ctx.Err() != nil {
				return nil
			}
			e.reload(a, func() bool { return stamp(own...) == seen })
		}
		if now := stamp(e.home.Lock()); now != accepted {
			accepted = now
			e.rejudge()
		}
	}
}

// quiet returns the stamp of files once it has stayed the same for a while.
func quiet(ctx context.Context, now string, paths ...string) string {
	for {
		select {
		case <-ctx.Done():
			return now
		case <-time.After(reloadQuiet):
		}
		next := stamp(paths...)
		if next == now {
			return now
		}
		now = next
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
		stamp += path + info.ModTime().String() + info.Mode().String() + strconv.FormatInt(info.Size(), 10) + "\n"
	}
	return stamp
}

// reload reads the configuration anew. Servers whose entry stays start and lose
// nothing; everything else holds from the next call on. A new server whose entry
// has a fault is left out, as at a start; any other fault, one in the entry of a
// server that runs too, has the file change nothing. Unless the files are still
// what they were when it was read, nothing happens, either: they are looked at again.
func (e *engine) reload(a *app, still func() bool) {
	was := e.reading.Load()
	cfg, err := e.readAnew(a, was.cfg)
	if !still() {
		return
	}
	var done upstream.Renewed
	if err == nil {
		done, err = e.renew(a, was.cfg, cfg)
	}
	if err != nil {
		e.tellFaults(was, err)
		return
	}
	now := &reading{cfg: cfg, configDoc: configDoc{Read: time.Now(), Changes: changesOf(done, was.cfg, cfg)}}
	e.reading.Store(now)
	for _, r := range newlyRefused(was.cfg, cfg) {
		for _, err := range r.Errors {
			e.log.Error("a server is left out", "server", r.Alias, "error", err)
		}
	}
	e.log.Info("the configuration was read anew", "changes", now.Changes, "policy", policyVersion(cfg)[:12])
}

// tellFaults keeps the faults of a configuration for status, and logs them once.
func (e *engine) tellFaults(was *reading, err error) {
	now := *was
	now.Faults = nil
	if list, ok := errors.AsType[config.ErrorList](err); ok {
		for _, fault := range list {
			now.Faults = append(now.Faults, fault.Error())
		}
	} else {
		now.Faults = []string{err.Error()}
	}
	e.reading.Store(&now)
	if !slices.Equal(now.Faults, was.Faults) {
		e.log.Error("the configuration has a fault: the old one stays in force", "error", strings.Join(now.Faults, "; "))
	}
}

// readAnew reads the configuration. Without a file, or with an empty one, there
// is none: whoever wants no servers can say so.
func (e *engine) readAnew(a *app, was config.Config) (config.Config, error) {
	path, err := e.home.ConfigFile()
	if err != nil {
		return config.Config{}, err
	}
	if path == "" && was.File != "" {
		return config.Config{}, fmt.Errorf("there is no %s any more: put it back, or write {} for a gate without servers", filepath.Base(was.File))
	}
	if info, err := os.Stat(path); err == nil && info.Size() == 0 {
		return config.Config{}, fmt.Errorf("%s is empty: write {} for a gate without servers", filepath.Base(path))
	}
	cfg, _, err := e.home.Load(a.env)
	if err != nil {
		return config.Config{}, err
	}
	var faults config.ErrorList
	for _, r := range cfg.Refused {
		if _, runs := was.Server(r.Alias); runs {
			faults = append(faults, r.Errors...)
		}
	}
	if faults != nil {
		return config.Config{}, faults
	}
	self, err := os.Executable()
	if err != nil {
		return config.Config{}, fmt.Errorf("find this program: %w", err)
	}
	cfg, _ = cfg.WithoutSelf(self, e.home)
	return cfg, nil
}

// newlyRefused are the servers that cannot be used for a reason that was not there
// before.
func newlyRefused(was, now config.Config) []config.Refused {
	before := refusals(was)
	return slices.DeleteFunc(slices.Clone(now.Refused), func(r config.Refused) bool {
		why, known := before[r.Alias]
		return known && why == r.Errors[0].Text
	})
}

// renew puts a configuration in force. Where it returns an error the old one is.
func (e *engine) renew(a *app, was, cfg config.Config) (upstream.Renewed, error) {
	ups, gated := e.servers(a, cfg, cfg.Servers)
	next := &engine{home: e.home, cfg: cfg, log: e.log, pool: e.pool}
	options := next.gateOptions(gated, e.o, e.aud)
	var err error
	if options.Keeper, err = next.keeper(); err != nil {
		return upstream.Renewed{}, err
	}
	if err := options.Check(); err != nil {
		return upstream.Renewed{}, err
	}
	e.offers.Lock()
	defer e.offers.Unlock()
	e.acceptance.replace(cfg)
	e.setLazy(cfg.Servers, ups)
	done, err := e.pool.Renew(ups)
	if err != nil {
		e.acceptance.replace(was)
		return done, err
	}
	for _, alias := range slices.Concat(done.Added, done.Changed, done.Removed) {
		delete(e.offered, alias)
	}
	e.gate.Rule(options.Settings)
	e.inbox.Bound(cfg.Approval.Expires, int(cfg.Approval.Alarm))
	a.setLevel(cfg.Log, e.o.serving)
	return done, nil
}

// changesOf is one line about what a reading changed.
func changesOf(done upstream.Renewed, was, now config.Config) string {
	var said []string
	say := func(what string, names []string) {
		if len(names) > 0 {
			said = append(said, what+" "+strings.Join(names, ", "))
		}
	}
	say("servers added:", done.Added)
	say("servers changed:", done.Changed)
	say("servers removed:", done.Removed)
	var refused []string
	for _, r := range newlyRefused(was, now) {
		refused = append(refused, r.Alias)
	}
	say("servers left out:", refused)
	if said == nil {
		said = append(said, "no server changed")
	}
	var later []string
	for _, of := range []struct {
		name     string
		was, now any
	}{
		{"approval.notify", was.Approval.Notify, now.Approval.Notify}, {"artifacts", was.Artifacts, now.Artifacts},
		{"clients (but for wait)", shown(was.Clients), shown(now.Clients)}, {"log.format", was.Log.Format, now.Log.Format}, {"prefix", was.Prefix, now.Prefix},
	} {
		if !reflect.DeepEqual(of.was, of.now) {
			later = append(later, of.name)
		}
	}
	say("from the next start on:", later)
	return strings.Join(said, "; ")
}

// shown is what clients are given, which stays while a gate runs.
func shown(clients []config.Client) map[string]config.Client {
	given := map[string]config.Client{}
	for _, c := range clients {
		c.Pos, c.Wait = config.Pos{}, 0
		if c != (config.Client{Name: c.Name, Schemas: config.SchemasAsIs}) {
			given[c.Name] = c
		}
	}
	return given
}
