package reactor

// Nudge makes the loop call the handler's Drained soon, even if nothing was queued. A protocol that other goroutines write to uses it to
// continue on its loop.
func (c *Conn) Nudge() { c.loop.post(c, workFlushed) }
