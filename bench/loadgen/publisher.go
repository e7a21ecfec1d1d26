package loadgen

import (
	"errors"
	"time"

	"godwit.dev/godwit/internal/engine/reactor"
)

// publisher is one connection that publishes, one request at a time.
type publisher struct {
	group    *group
	num      int
	conn     *reactor.Conn
	wire     pubWire
	requests []*request
	due      int64
	copies   int // in the request under way
	deaf     int // copies of these to recipients that read nothing
}

var _ reactor.Handler = (*publisher)(nil)

// send publishes one request. The group's lock is held.
func (p *publisher) send(j job) {
	r := p.requests[j.chunk]
	next := p.group.nextRecipient
	if j.to >= 0 {
		next = func() int { return j.to }
	}
	r.prepare(j.due, next, p.group.p.cfg.deaf)
	p.due, p.copies, p.deaf = j.due, r.copies, r.deaf
	if p.wire.admit(r) {
		p.write(r.bytes)
	}
}

func (p *publisher) write(b []byte) {
	if len(b) > 0 && !p.conn.Write(b, nil) {
		p.conn.Abort(errors.New("the server does not read publishes"))
	}
}

// Data implements reactor.Handler.
func (p *publisher) Data(b []byte) (int, error) {
	p.group.mu.Lock()
	used, a, send, err := p.wire.parse(b, p.copies)
	p.write(send)
	p.group.mu.Unlock()
	if a != nil {
		p.group.answered(p, a)
	}
	return used, err
}

// Drained implements reactor.Handler.
func (p *publisher) Drained() {}

// Tick implements reactor.Handler.
func (p *publisher) Tick(time.Time) {}

// Closed implements reactor.Handler.
func (p *publisher) Closed(err error) { p.group.closed(p, err) }
