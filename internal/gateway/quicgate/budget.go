package quicgate

import "godwit.dev/godwit/internal/engine/memory"

// charge adds n to the bytes that are held; n is negative when bytes leave.
func (g *Gateway) charge(n int) {
	if g.budget.Add(n) && g.shedding.CompareAndSwap(false, true) {
		g.running.Go(g.shed)
	}
}

// shed closes the sessions with the largest queues until an eighth of the memory is free again.
func (g *Gateway) shed() {
	defer g.shedding.Store(false)
	var all []*conn
	g.mu.Lock()
	for l := range g.lines {
		l.mu.Lock()
		if c := l.session; c != nil {
			all = append(all, c)
		}
		l.mu.Unlock()
	}
	g.mu.Unlock()
	if closed := memory.Shed(g.budget, all, func(c *conn) { c.refuse(codeSlow, slow) }); closed > 0 {
		g.cfg.Log.Warn("closed slow QUIC clients: connections and queues exceeded their memory", "closed", closed, "limit_bytes", g.budget.Limit())
	}
}
