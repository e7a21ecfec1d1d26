package quicgate

import (
	"cmp"
	"math"
	"runtime/debug"
	"slices"
)

// ceilingFactor: when connections and queues exceed the memory by more than an eighth, no queue takes more until the largest are gone.
const ceilingFactor = 8

// charge adds n to the bytes that are held; n is negative when bytes leave.
func (g *Gateway) charge(n int) {
	if total := g.held.Add(int64(n)); n > 0 && total > g.cfg.Memory && g.shedding.CompareAndSwap(false, true) {
		g.running.Go(g.shed)
	}
}

func (g *Gateway) overBudget() bool { return g.held.Load() > g.cfg.Memory+g.cfg.Memory/ceilingFactor }

// shed closes the sessions with the largest queues until an eighth of the memory is free again.
func (g *Gateway) shed() {
	defer g.shedding.Store(false)
	type sized struct {
		c *conn
		n int
	}
	var all []sized
	g.mu.Lock()
	for l := range g.lines {
		l.mu.Lock()
		if c := l.session; c != nil {
			all = append(all, sized{c: c})
		}
		l.mu.Unlock()
	}
	g.mu.Unlock()
	for i := range all {
		all[i].n = all[i].c.Queued()
	}
	slices.SortFunc(all, func(a, b sized) int { return cmp.Compare(b.n, a.n) })
	closed := 0
	for _, s := range all {
		if g.held.Load() <= g.cfg.Memory-g.cfg.Memory/ceilingFactor || s.n == 0 {
			break
		}
		s.c.abort()
		closed++
	}
	if closed > 0 {
		g.cfg.Log.Warn("closed slow QUIC clients: connections and queues exceeded their memory", "closed", closed, "limit_bytes", g.cfg.Memory)
	}
}

// assumedMemory is used if the process has no limit of its own.
const assumedMemory = 4 << 30

// memoryLimit returns Go's soft limit, or assumedMemory.
func memoryLimit() int64 {
	if n := debug.SetMemoryLimit(-1); n < math.MaxInt64 {
		return n
	}
	return assumedMemory
}
