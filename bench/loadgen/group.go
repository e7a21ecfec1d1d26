package loadgen

import (
	"errors"
	"slices"
	"sync"
	"time"

	"godwit.dev/godwit/internal/engine/reactor"
)

// job is one request to send.
type job struct {
	due   int64
	chunk int // which of the publisher's requests
	to    int // the recipient's number; negative: the next in turn
}

// inTurn lets the group choose the recipient.
const inTurn = -1

// group holds the publishers of one server.
type group struct {
	p          *Publishers
	target     Target
	recipients []int // those of this server
	chunks     int   // number of requests that make up one message

	mu      sync.Mutex
	next    int // recipient
	turn    int // next chunk, where publishers continue by themselves
	idle    []*publisher
	backlog []job // jobs that are due and wait for a free publisher
	busy    int
	gone    int
}

// nextRecipient returns the recipients in turn. mu is held.
func (g *group) nextRecipient() int {
	n := g.recipients[g.next]
	if g.next++; g.next == len(g.recipients) {
		g.next = 0
	}
	return n
}

// submit sends j as soon as a publisher is free.
func (g *group) submit(j job) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.idle) > 0 {
		p := g.idle[0] // take publishers in turn: a server closes connections that stay silent
		g.idle = slices.Delete(g.idle, 0, 1)
		g.busy++
		p.send(j)
		return
	}
	g.backlog = append(g.backlog, j)
}

// answered handles the answer to p's request and gives p the next job.
func (g *group) answered(p *publisher, a *answer) {
	now := Now()
	g.p.count(time.Duration(now-p.due), a, min(p.deaf, a.accepted))
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case len(g.backlog) > 0:
		j := g.backlog[0]
		g.backlog = g.backlog[1:]
		p.send(j)
	case g.p.cfg.rate <= 0 && now < g.p.until:
		g.turn++
		p.send(job{due: now, chunk: g.turn % g.chunks, to: inTurn})
	default:
		g.busy--
		g.idle = append(g.idle, p)
	}
}

// closed removes a publisher whose connection has ended. If the publisher had no open requests, nothing was lost and it reconnects.
func (g *group) closed(p *publisher, err error) {
	g.mu.Lock()
	i := slices.Index(g.idle, p)
	if i >= 0 {
		g.idle = slices.Delete(g.idle, i, i+1)
	} else {
		g.busy--
		g.gone++
	}
	g.mu.Unlock()
	switch {
	case g.p.closed.Load():
	case i < 0:
		g.p.failed(err)
	case !errors.Is(err, reactor.ErrReactorClosed):
		go g.reopen(p) // ends when dialing ends or times out; not called directly, because a connection's loop must not block
	}
}

// reopen connects a publisher again.
func (g *group) reopen(p *publisher) {
	if err := g.p.open(g, p, func() { g.ready(p) }); err != nil {
		g.mu.Lock()
		g.gone++
		g.mu.Unlock()
		g.p.failed(err)
	}
}

// ready adds a publisher that has just connected.
func (g *group) ready(p *publisher) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.backlog) > 0 {
		j := g.backlog[0]
		g.backlog = g.backlog[1:]
		g.busy++
		p.send(j)
		return
	}
	g.idle = append(g.idle, p)
}

// drained reports whether no request is under way or waiting, or no publisher is left.
func (g *group) drained() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.busy <= 0 && (len(g.backlog) == 0 || len(g.idle) == 0)
}

// abandon drops the waiting messages and returns their number.
func (g *group) abandon() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := len(g.backlog)
	g.backlog = nil
	return n
}
