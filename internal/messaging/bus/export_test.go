package bus

import "time"

// CloseIdle closes connections that have not been used for idleAfter at that time.
func (b *Bus) CloseIdle(now time.Time) { b.closeIdle(now) }

// Connections returns the numbers of connections to the server within the process and of accounts made.
func (b *Bus) Connections() (n, accounts int) {
	e := b.dial.(*embedded)
	if e.nats == nil {
		return 0, 0
	}
	return e.nats.NumClients(), e.made
}

// PingEvery has silence noticed earlier.
func (x *External) PingEvery(d time.Duration) { x.pingEvery = d }

// Cut ends a line's connection, as a server does that finds the line too slow.
func (l *Line) Cut() {
	switch c := l.on.(type) {
	case *direct:
		c.mu.Lock()
		defer c.mu.Unlock()
		_ = c.conn.Close()
	case *library:
		_ = c.wire.Load().Close()
	}
}
