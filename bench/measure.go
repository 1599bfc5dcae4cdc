package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

const mb = 1e6

// plan says how much is measured in a round.
type plan struct {
	slices   int           // latency and throughput are taken in so many turns, the targets by turns
	trips    int           // sequential calls a turn
	tripTime time.Duration // and at most for so long
	burst    time.Duration // a turn of throughput
	blobs    int           // large results
	blobSize int
	list     int           // tools of the large list; 0 for none
	lists    int           // times it is asked for
	servers  []int         // cold starts with so many
	accepted bool          // and one of servers on record
	pairTime time.Duration // a turn of two processes at once
	settle   time.Duration
}

var (
	wholePlan = plan{slices: 4, trips: 400, tripTime: 400 * time.Millisecond, burst: 150 * time.Millisecond, blobs: 4, blobSize: 10_000_000,
		list: 10_000, lists: 3, servers: []int{1, 10, 20}, accepted: true, pairTime: 400 * time.Millisecond, settle: 2 * time.Second}
	quickPlan = plan{slices: 2, trips: 200, tripTime: 200 * time.Millisecond, burst: 100 * time.Millisecond, blobs: 2, blobSize: 10_000_000,
		servers: []int{1, 10}, accepted: true, pairTime: 300 * time.Millisecond, settle: 100 * time.Millisecond}
)

// serverTools is how many tools a server lists where lists are not the point:
// the median of what clients' users have.
const serverTools = 35

// bench is one run.
type bench struct {
	env
	plan
	order  *rand.Rand
	table  table
	faults []error

	records []*record // of serverWork
}

// shuffled returns targets in an order of this turn's own.
func (b *bench) shuffled(targets []target) []target {
	all := slices.Clone(targets)
	b.order.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// fault notes what went wrong with one target. The others go on.
func (b *bench) fault(t target, what string, err error) {
	b.faults = append(b.faults, fmt.Errorf("%s: %s: %w", t.name, what, err))
}

// steady measures calls on processes that live for the whole round, side by
// side, so that what is compared is measured within seconds of each other.
func (b *bench) steady(round int) {
	running := map[string]*process{}
	defer func() {
		for _, p := range running {
			p.stop()
		}
	}()
	var up []target
	for _, t := range b.shuffled(callTargets) {
		p, err := b.launch(t, 1, serverTools)
		if err == nil {
			_, err = p.load(1, 50*time.Millisecond, &p.requests) // warm
		}
		if err != nil {
			b.fault(t, "start", err)
			continue
		}
		running[t.name] = p
		up = append(up, t)
	}
	time.Sleep(b.settle)
	for _, t := range up {
		if now, _, ok := residentOf(running[t.name].cmd.Process.Pid); ok && t.proxy {
			b.table.add(idleMemory, t, round, now/mb)
		}
	}
	b.latency(round, up, running)
	b.throughput(round, up, running, 8, calls8, cpu8)
	b.throughput(round, up, running, 64, calls64, cpu64)
	for _, t := range up {
		if now, _, ok := residentOf(running[t.name].cmd.Process.Pid); ok && t.proxy {
			b.table.add(loadMemory, t, round, now/mb)
		}
	}
}

func (b *bench) latency(round int, up []target, running map[string]*process) {
	took := map[string][]time.Duration{}
	for range b.slices {
		for _, t := range b.shuffled(up) {
			all, err := sequence(running[t.name], b.trips, b.tripTime)
			if err != nil {
				b.fault(t, "echo", err)
			}
			took[t.name] = append(took[t.name], all...)
		}
	}
	for _, t := range up {
		all := took[t.name]
		if len(all) == 0 {
			continue
		}
		slices.Sort(all)
		sum := time.Duration(0)
		for _, d := range all {
			sum += d
		}
		b.table.add(echo50, t, round, micros(all[len(all)/2]))
		b.table.add(echo99, t, round, micros(all[len(all)*99/100]))
		b.table.add(calls1, t, round, float64(len(all))/sum.Seconds())
	}
}

// sequence makes echo calls one after another.
func sequence(p *process, n int, limit time.Duration) ([]time.Duration, error) {
	var all []time.Duration
	for end := time.Now().Add(limit); len(all) < n && time.Now().Before(end); {
		line := p.echo()
		began := time.Now()
		a, err := p.trip(line)
		took := time.Since(began)
		if err == nil {
			err = checkEcho(a)
		}
		if err != nil {
			return all, err
		}
		all = append(all, took)
	}
	return all, nil
}

func (b *bench) throughput(round int, up []target, running map[string]*process, inFlight int, rate, cost measure) {
	calls, cpu, spent := map[string]int{}, map[string]time.Duration{}, map[string]time.Duration{}
	for range b.slices {
		for _, t := range b.shuffled(up) {
			p := running[t.name]
			before, _ := cpuOf(p.cmd.Process.Pid)
			began := time.Now()
			n, err := p.load(inFlight, b.burst, &p.requests)
			spent[t.name] += time.Since(began)
			after, _ := cpuOf(p.cmd.Process.Pid)
			if err != nil {
				b.fault(t, string(rate), err)
			}
			calls[t.name] += n
			cpu[t.name] += after - before
		}
	}
	for _, t := range up {
		n := float64(calls[t.name])
		if n == 0 {
			continue
		}
		b.table.add(rate, t, round, n/spent[t.name].Seconds())
		if t.proxy && cpu[t.name] > 0 {
			b.table.add(cost, t, round, micros(cpu[t.name])/n)
		}
	}
}

// large measures a result of megabytes, on a process that has carried nothing
// else, so that its memory can be held against the payload.
func (b *bench) large(round int) {
	for _, t := range b.shuffled(blobTargets) {
		p, err := b.launch(t, 1, serverTools)
		if err != nil {
			b.fault(t, "start", err)
			continue
		}
		if err := b.blobsOf(round, t, p); err != nil {
			b.fault(t, "large result", err)
		}
		p.stop()
	}
}

func (b *bench) blobsOf(round int, t target, p *process) error {
	if _, err := p.trip(p.blob(1000)); err != nil {
		return err
	}
	pid := p.cmd.Process.Pid
	time.Sleep(b.settle / 10)
	before, _, seen := residentOf(pid)
	seen = resetPeak(pid) && seen
	cpu, _ := cpuOf(pid)
	var took []time.Duration
	for range b.blobs {
		line := p.blob(b.blobSize)
		began := time.Now()
		a, err := p.trip(line)
		if err == nil && a.size < b.blobSize {
			err = fmt.Errorf("%d bytes only: %s", a.size, a.head)
		}
		if err != nil {
			return err
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	b.table.add(largeTime, t, round, millis(took[len(took)/2]))
	if after, ok := cpuOf(pid); ok && t.proxy {
		b.table.add(largeCPU, t, round, millis(after-cpu)/float64(b.blobs))
	}
	if _, peak, ok := residentOf(pid); ok && seen && t.proxy {
		b.table.add(largeGrowth, t, round, (peak-before)/float64(b.blobSize))
	}
	return nil
}

// longList measures a list of thousands of tools: from the start until it is
// there, and again when it is known.
func (b *bench) longList(round int) {
	if b.list == 0 {
		return
	}
	for _, t := range b.shuffled(listTargets) {
		p, err := b.launch(t, 1, b.list)
		if err != nil {
			b.fault(t, "start with a long list", err)
			continue
		}
		b.table.add(listReady, t, round, millis(p.listed))
		if err := b.listsOf(round, t, p); err != nil {
			b.fault(t, "long list", err)
		}
		p.stop()
	}
}

func (b *bench) listsOf(round int, t target, p *process) error {
	pid := p.cmd.Process.Pid
	cpu, _ := cpuOf(pid)
	var took []time.Duration
	for range b.plan.lists {
		line := p.other("tools/list", "{}")
		began := time.Now()
		if _, err := p.trip(line); err != nil {
			return err
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	b.table.add(listTime, t, round, millis(took[len(took)/2]))
	if !t.proxy {
		return nil
	}
	if after, ok := cpuOf(pid); ok {
		b.table.add(listCPU, t, round, millis(after-cpu)/float64(b.plan.lists))
	}
	if now, _, ok := residentOf(pid); ok {
		b.table.add(listMemory, t, round, now/mb)
	}
	return nil
}

// cold measures the way from nothing to the first complete list, of servers
// never seen.
func (b *bench) cold(round int) {
	for _, n := range b.servers {
		for _, t := range b.shuffled(coldTargets) {
			p, err := b.launch(t, n, serverTools)
			if err != nil {
				b.fault(t, fmt.Sprintf("cold start with %d servers", n), err)
				continue
			}
			b.table.add(coldInitialized(n), t, round, millis(p.initialized))
			b.table.add(coldListed(n), t, round, millis(p.listed))
			p.stop()
		}
	}
}

// rounds runs everything and reports what did not work.
func (b *bench) rounds(n int, parts map[string]bool, progress func(string)) error {
	for round := range n {
		for _, part := range []struct {
			name string
			run  func(int)
		}{{"calls", b.steady}, {"two", b.twoGates}, {"large", b.large}, {"list", b.longList}, {"cold", b.cold}, {"accepted", b.coldAccepted}} {
			if parts == nil || parts[part.name] {
				progress(fmt.Sprintf("round %d of %d: %s", round+1, n, part.name))
				part.run(round)
			}
		}
	}
	return errors.Join(b.faults...)
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
