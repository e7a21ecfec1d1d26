package bus

import "time"

// CloseIdle closes what nobody has used until then.
func (b *Bus) CloseIdle(now time.Time) { b.closeIdle(now) }

// Connections counts those of the server within the process, and the accounts that were made.
func (b *Bus) Connections() (n, accounts int) {
	e := b.dial.(*embedded)
	if e.nats == nil {
		return 0, 0
	}
	return e.nats.NumClients(), e.made
}

// PingEvery has silence noticed earlier.
func (x *External) PingEvery(d time.Duration) { x.pingEvery = d }
