package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// profiler is compiled into the gate's command for a profile, and into no
// other build. It profiles from when a file appears until it is gone.
const profiler = `package main

import (
	"os"
	"runtime"
	"runtime/pprof"
	"time"
)

func init() {
	const dir = %q
	runtime.MemProfileRate = 64 << 10
	await := func(there bool) {
		for {
			if _, err := os.Stat(dir + "/go"); (err == nil) == there {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	go func() {
		await(true)
		cpu, _ := os.Create(dir + "/cpu.pprof")
		_ = pprof.StartCPUProfile(cpu)
		await(false)
		pprof.StopCPUProfile()
		_ = cpu.Close()
		mem, _ := os.Create(dir + "/mem.pprof")
		_ = pprof.Lookup("allocs").WriteTo(mem, 0)
		_ = mem.Close()
		_, _ = os.Create(dir + "/done")
	}()
}
`

// profileGate writes cpu.pprof and mem.pprof of the gate under each kind of
// work into folders under dir, for go tool pprof.
func (e env) profileGate(dir, only string, stderr io.Writer) error {
	for name, work := range map[string]struct {
		target target
		tools  int
		run    func(*process) error
	}{
		"calls":      {gated, serverTools, profileCalls},
		"calls-meta": {metaed, serverTools, profileCalls},
		"calls-http": {gatedWeb, serverTools, profileCalls},
		"trips":      {gated, serverTools, profileTrips},
		"large":      {gated, serverTools, profileLarge},
		"large-open": {opened, serverTools, profileLarge},
		"list":       {gated, 10_000, profileLists},
	} {
		if only != "" && !slices.Contains(strings.Split(only, ","), name) {
			continue
		}
		out, err := filepath.Abs(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		if err := os.MkdirAll(out, 0o755); err != nil {
			return err
		}
		e.gate = filepath.Join(out, "mcp-gate")
		if err := buildProfiled(e.gate, e.tmp, out); err != nil {
			return err
		}
		if err := e.profileOne(work.target, work.tools, out, work.run); err != nil {
			return fmt.Errorf("profile %s: %w", name, err)
		}
		fmt.Fprintf(stderr, "go tool pprof -top %s %s\n", e.gate, filepath.Join(out, "cpu.pprof"))
	}
	return nil
}

// buildProfiled builds the gate with the profiler laid over its sources.
func buildProfiled(to, tmp, dir string) error {
	found, err := exec.Command("go", "list", "-f", "{{.Dir}}", gatePackage).Output()
	if err != nil {
		return fmt.Errorf("find the gate's sources: %w", err)
	}
	source := filepath.Join(tmp, "profiler.go")
	if err := os.WriteFile(source, fmt.Appendf(nil, profiler, dir), 0o600); err != nil {
		return err
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(strings.TrimSpace(string(found)), "zz_profiler.go"): source}})
	if err != nil {
		return err
	}
	file := filepath.Join(tmp, "overlay.json")
	if err := os.WriteFile(file, overlay, 0o600); err != nil {
		return err
	}
	return build("-overlay", file, "-o", to, gatePackage)
}

func (e env) profileOne(t target, tools int, dir string, work func(*process) error) error {
	for _, old := range []string{"go", "done"} {
		_ = os.Remove(filepath.Join(dir, old)) // of a run before; it need not be there
	}
	p, err := e.launch(t, 1, tools)
	if err != nil {
		return err
	}
	defer p.stop()
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		return err
	}
	time.Sleep(100 * time.Millisecond) // until it was seen
	if err := work(p); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(dir, "go")); err != nil {
		return err
	}
	for range 500 {
		if err := os.Remove(filepath.Join(dir, "done")); err == nil {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return fmt.Errorf("no profile came")
}

func profileCalls(p *process) error {
	_, err := p.load(8, 8*time.Second, &p.requests)
	return err
}

func profileLarge(p *process) error {
	for range 40 {
		if _, err := p.trip(p.blob(10_000_000)); err != nil {
			return err
		}
	}
	return nil
}

func profileLists(p *process) error {
	for range 40 {
		if _, err := p.trip(p.other("tools/list", "{}")); err != nil {
			return err
		}
	}
	return nil
}

func profileTrips(p *process) error {
	_, err := sequence(p, 1<<30, 8*time.Second)
	return err
}
