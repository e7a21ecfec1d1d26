package reactor

import (
	"cmp"
	"math"
	"runtime/debug"
	"slices"
)

// ceilingFactor: when the queues exceed TotalBytes by more than an eighth, connections with a queue accept no more writes until the budget
// goroutine has made room.
const ceilingFactor = 8

// charge adds n to the bytes in queues (n is negative if bytes leave). A tail that several queues share counts for each of them, so the
// limit holds in the worst case.
func (r *Reactor) charge(n int) {
	if total := r.queued.Add(int64(n)); n > 0 && total > r.cfg.TotalBytes {
		select {
		case r.over <- struct{}{}:
		default:
		}
	}
}

func (r *Reactor) overCeiling() bool {
	return r.queued.Load() > r.cfg.TotalBytes+r.cfg.TotalBytes/ceilingFactor
}

// queueBegun and queueEmpty maintain the list of connections that have a queue. c.mu is held.
func (l *loop) queueBegun(c *Conn) {
	l.backlogMu.Lock()
	l.backlog[c] = struct{}{}
	l.backlogMu.Unlock()
}

func (l *loop) queueEmpty(c *Conn) {
	l.backlogMu.Lock()
	delete(l.backlog, c)
	l.backlogMu.Unlock()
}

// guardBudget closes connections whenever the queues together are too long.
func (r *Reactor) guardBudget() {
	for {
		select {
		case <-r.ctx.Done():
			return
		case <-r.over:
			r.shed()
		}
	}
}

// shed closes the connections with the largest queues until an eighth of the budget is free again.
func (r *Reactor) shed() {
	goal := r.cfg.TotalBytes - r.cfg.TotalBytes/ceilingFactor
	type sized struct {
		c *Conn
		n int
	}
	var all []sized
	for _, l := range r.loops {
		l.backlogMu.Lock()
		for c := range l.backlog {
			all = append(all, sized{c: c})
		}
		l.backlogMu.Unlock()
	}
	for i := range all {
		all[i].n = all[i].c.Queued()
	}
	slices.SortFunc(all, func(a, b sized) int { return cmp.Compare(b.n, a.n) })
	closed := 0
	for _, s := range all {
		if r.queued.Load() <= goal {
			break
		}
		s.c.Abort(ErrOverBudget)
		closed++
	}
	if closed > 0 {
		r.log.Warn("closed slow connections: write queues exceeded their common limit", "closed", closed, "limit_bytes", r.cfg.TotalBytes)
	}
}

// assumedMemory is used if the memory limit is unknown.
const assumedMemory = 4 << 30

// memoryLimit returns the memory that the process may use: Go's soft limit if one was set, else the system's limit.
func memoryLimit() int64 {
	if n := debug.SetMemoryLimit(-1); n < math.MaxInt64 {
		return n
	}
	if n := machineMemory(); n > 0 {
		return n
	}
	return assumedMemory
}
