package reactor

// Nudge has the handler's Drained called soon from the loop, even with nothing to drain: it is how a protocol that
// others write to gets back onto its loop.
func (c *Conn) Nudge() { c.loop.post(c, workFlushed) }
