package transport

import (
	"sync"
	"sync/atomic"
)

// maxIdle is how many goroutines a crew keeps for the next job.
const maxIdle = 64

// crew runs each job at once on a goroutine of its own, and reuses those that
// are done: a new one begins with a small stack, and growing that costs more
// than the rest of a small call.
type crew struct {
	jobs chan func() // taken by a goroutine that is idle
	over chan struct{}
	idle atomic.Int64
	all  sync.WaitGroup
}

func newCrew() *crew { return &crew{jobs: make(chan func()), over: make(chan struct{})} }

// do starts job and returns. It must not be called after end.
func (c *crew) do(job func()) {
	select {
	case c.jobs <- job:
	default:
		c.all.Go(func() { c.work(job) })
	}
}

func (c *crew) work(job func()) {
	for {
		job()
		if c.idle.Add(1) > maxIdle {
			c.idle.Add(-1)
			return
		}
		select {
		case job = <-c.jobs:
			c.idle.Add(-1)
		case <-c.over:
			return
		}
	}
}

// end lets the idle go. It does not wait for jobs that run.
func (c *crew) end() { close(c.over) }
