package reactor

import "godwit.dev/godwit/internal/engine/memory"

// charge adds n to the bytes in queues (n is negative if bytes leave). A tail that several queues share counts for each of them, so the
// limit holds in the worst case.
func (r *Reactor) charge(n int) {
	if r.budget.Add(n) {
		select {
		case r.over <- struct{}{}:
		default:
		}
	}
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
	var all []*Conn
	for _, l := range r.loops {
		l.backlogMu.Lock()
		for c := range l.backlog {
			all = append(all, c)
		}
		l.backlogMu.Unlock()
	}
	if closed := memory.Shed(r.budget, all, func(c *Conn) { c.Abort(ErrOverBudget) }); closed > 0 {
		r.log.Warn("closed slow connections: write queues exceeded their common limit", "closed", closed, "limit_bytes", r.budget.Limit())
	}
}
