package signal

import (
	"context"
	"time"

	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/notify/session"
	"godwit.dev/godwit/internal/objects/object"
	"godwit.dev/godwit/internal/objects/object/objectstore"
)

// Frames implements session.Capability.
func (s *Service) Frames() (first, later []frame.Kind) {
	return []frame.Kind{frame.KindRegister, frame.KindUnregister}, []frame.Kind{frame.KindObjectAck}
}

// Open implements session.Capability.
func (s *Service) Open(ctx context.Context, p session.Sender, who session.Client, load bool) session.Part {
	id := clientID(who)
	for {
		c := s.roster.enter(s, id)
		if l, ok := c.open(ctx, p, who, load); ok {
			if l == nil {
				return nil
			}
			return l
		}
	}
}

func clientID(who session.Client) objectstore.ClientID {
	return objectstore.ClientID{App: who.App, Recipient: who.Recipient, Group: who.Group, Device: who.Device}
}

// open makes a session that has not joined yet, and first loads the client's stored registrations. False: the client was just removed.
func (c *Client) open(ctx context.Context, p session.Sender, who session.Client, load bool) (*liveSession, bool) {
	l := &liveSession{c: c, peer: p, who: who, format: p.Format()}
	c.mu.Lock()
	if c.phase == removed {
		c.mu.Unlock()
		return nil, false
	}
	c.opening++
	if !c.lasting() || !load {
		c.phase.load() // with nothing
	}
	known := c.phase == loaded
	c.mu.Unlock()
	if !known && !c.load(ctx) {
		return nil, true // nothing is stored
	}
	return l, true
}

// load reads the client's stored registrations. False: there are none, and no other goroutine uses the client.
func (c *Client) load(ctx context.Context) bool {
	v, err := c.svc.store.Load(ctx, c.id)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.phase >= loaded: // another was quicker
		return true
	case err != nil:
		c.phase.readFailed()
		if c.svc.ctx.Err() == nil {
			c.svc.log.Warn("reading registrations failed, will try again", "app", c.id.App, "recipient", c.id.Recipient, "error", err)
		}
		c.arm(c.svc.second() + seconds(storeRetry))
		return true
	case v == nil && c.session == nil && c.opening == 1:
		c.svc.roster.remove(c)
		return false
	case v == nil:
		v = &objectstore.Saved{}
	}
	c.phase.load()
	c.away = set{v.Keys, v.Progress}
	c.digest = object.DigestOf(v.Keys...)
	c.saves.keep(c.digest, len(v.Keys))
	if c.session != nil {
		c.restore()
		if c.session.started {
			c.pending.add(0, "", nil) // the digest was not known in time for the welcome
		}
		c.later()
	}
	return true
}

// Join implements session.Part.
func (l *liveSession) Join() {
	for !l.join() {
		l.c = l.c.svc.roster.enter(l.c.svc, clientID(l.who)) // the recipient was erased meanwhile
	}
}

func (l *liveSession) join() bool {
	c := l.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.phase == removed {
		return false
	}
	c.opening = max(0, c.opening-1)
	c.detach()
	c.svc.index.sessions.enter(l)
	c.session, c.opened = l, c.svc.cfg.Now().UnixMilli()
	if c.phase == loaded {
		c.restore()
	}
	return true
}

// Start implements session.Part.
func (l *liveSession) Start() {
	c := l.c
	c.mu.Lock()
	defer c.mu.Unlock()
	l.started = true
	if c.session == l {
		c.touch()
		c.later()
	}
}

// Frame implements session.Part.
func (l *liveSession) Frame(f *frame.Client) {
	if f.Kind == frame.KindObjectAck {
		l.acked(f)
		return
	}
	l.asked(f)
}

// Closed implements session.Part.
func (l *liveSession) Closed() {
	c := l.c
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.session == l:
		c.detach()
		c.touch()
	case l.over.Load():
		return // another session of the device has taken over
	default:
		l.over.Store(true) // it never joined
		c.opening--
	}
	if !c.lasting() || c.phase != loaded && c.opening == 0 && c.session == nil {
		c.svc.roster.remove(c)
		return
	}
	c.later()
}

// Drained implements session.Part.
func (l *liveSession) Drained() {
	c := l.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.session == l && l.blocked {
		l.blocked = false
		c.later()
	}
}

// Digest implements session.Digester.
func (l *liveSession) Digest() (digest string, registrations int) {
	c := l.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.session != l || c.phase != loaded {
		return "", 0
	}
	return c.saves.disk.digest.String(), int(c.saves.disk.count)
}

// Renew implements session.Part. It drops registrations that the new token does not allow; then the digests differ, and the client learns
// the reason when it registers again.
func (l *liveSession) Renew(who session.Client) {
	c := l.c
	c.mu.Lock()
	defer c.mu.Unlock()
	l.who = who
	if c.session != l || c.phase != loaded {
		return
	}
	kept := c.regs[:0]
	for _, r := range c.regs {
		if w := c.svc.index.get(r.id); !l.allowed(w.key) {
			c.leave(w)
		} else {
			kept = append(kept, r)
		}
	}
	if len(kept) < len(c.regs) {
		c.regs = kept
		c.changed()
	}
}

// leave takes an object out of the set; the caller removes the reg.
func (c *Client) leave(w *watched) {
	w.remove(&c.svc.index.sessions, c.session)
	c.digest -= w.hash
	c.svc.index.release(w)
}

// changed records a change of the set, which has to be stored before the client gets an answer.
func (c *Client) changed() {
	c.saves.change()
	if !c.lasting() {
		c.saves.keep(c.digest, len(c.regs))
	}
	c.later()
}

func (s *Service) until(at second) time.Duration {
	return time.Duration(at)*time.Second - s.cfg.Now().Sub(s.start)
}
