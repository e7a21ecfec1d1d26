package session

import (
	"crypto/rand"
	"errors"
	"fmt"
	mrand "math/rand/v2"
	"time"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
)

// verification is a hello that is being checked.
type verification struct {
	s     *Session
	o     *opening
	renew bool
	at    time.Time // when the hello began to wait for its app's server
}

// hello starts the verification outside the connection's loop. The transport is paused, so that frames stay in order.
func (s *Session) hello(hello *frame.Hello) {
	h := s.hub
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == over || s.state == verifying {
		return
	}
	v := verification{s: s, renew: s.state == live}
	if v.renew {
		v.o, _ = openings.Get().(*opening)
		v.o.peer.Claim = access.Claim{App: s.app, Recipient: s.recipient, Device: s.device}
	} else {
		v.o = s.side.opening
		g, refused := h.refuses()
		switch {
		case refused:
			s.goodbyeLocked(g)
			return
		case h.cfg.Admit != nil && !h.cfg.Admit(v.o.peer.Addr):
			s.goodbyeLocked(later(frame.RateLimited))
			return
		}
		s.state, s.side = verifying, nil
	}
	v.o.hello = *hello
	s.t.Pause()
	h.verify.add(v)
}

// verified checks a hello first with the keys and answers known on this node, so that it waits for another server only if needed. Hellos
// that need the app's own server wait in a queue for each app.
func (h *Hub) verified(v verification) {
	claim := v.o.claim()
	if _, vouched := v.s.t.(Voucher); vouched {
		h.askLater(v, claim, claim.App)
		return
	}
	c, err := h.cfg.Verifier.Known(claim)
	if ask, unknown := errors.AsType[*access.AskError](err); unknown {
		h.askLater(v, claim, ask.App)
		return
	}
	h.decide(v, claim, c, err)
}

// askLater puts a hello into its app's queue.
func (h *Hub) askLater(v verification, claim access.Claim, app string) {
	v.at = time.Now()
	if !h.ask.Add(app, v) {
		h.decide(v, claim, access.Client{}, fmt.Errorf("%w: too many wait for the server of app %s", access.ErrUnavailable, app))
	}
}

// asked sends a claim to its app's server, or has the transport vouch. Both limit the time for that.
func (h *Hub) asked(v verification) {
	claim := v.o.claim()
	if time.Since(v.at) > askPatience {
		h.decide(v, claim, access.Client{}, fmt.Errorf("%w: the app's server answers too slowly", access.ErrUnavailable))
		return
	}
	if t, vouched := v.s.t.(Voucher); vouched {
		c, err := t.Vouch(h.ctx)
		h.decide(v, claim, c, err)
		return
	}
	c, err := h.cfg.Verifier.Client(h.ctx, claim)
	h.decide(v, claim, c, err)
}

// unavailable is the goodbye for clients that cannot be verified now. They reconnect at different times.
func unavailable() frame.Goodbye { return later(frame.AuthUnavailable) }

// later is the goodbye for passing trouble. Clients reconnect at different times.
func later(reason string) frame.Goodbye {
	return frame.Goodbye{Reason: reason, RetryAfter: laterLeast + time.Duration(mrand.Int64N(int64(laterLeast)))}
}

// laterLeast is the least time after which such a client may reconnect.
const laterLeast = 5 * time.Second

// decide handles a hello after its verification.
func (h *Hub) decide(v verification, claim access.Claim, c access.Client, err error) {
	if err == nil {
		err = notification.CheckName("recipient", c.Recipient)
	}
	if k, ok := v.s.t.(Knower); ok && err == nil && !v.renew {
		k.Verified(c, func(err error) { h.decided(v, claim, c, err) })
		return
	}
	h.decided(v, claim, c, err)
}

// decided refuses or admits a client.
func (h *Hub) decided(v verification, claim access.Claim, c access.Client, err error) {
	switch {
	case err != nil:
		h.log.DebugContext(h.ctx, "client refused", "app", claim.App, "error", err)
		g := refusal(err)
		if g.Error != nil {
			v.s.Bad(g.Error)
		}
		v.s.Goodbye(g)
	case v.renew:
		v.s.renewed(c, &v.o.hello)
	default:
		v.s.admit(c, &v.o.hello)
	}
	*v.o = opening{}
	openings.Put(v.o)
	v.s.t.Resume()
}

// claim combines the data of the connection with that of the hello, which takes precedence.
func (o *opening) claim() access.Claim {
	c, hello := o.peer.Claim, &o.hello
	for _, f := range [...]struct {
		to   *string
		from string
	}{
		{&c.App, hello.App},
		{&c.Token, hello.Token},
		{&c.Recipient, hello.Recipient},
		{&c.Group, hello.Group},
		{&c.Device, hello.Device},
	} {
		if f.from != "" {
			*f.to = f.from
		}
	}
	return c
}

// admit registers a verified client and welcomes it. It holds the lock from the registration to the welcome, so that the welcome is the
// first frame. Pending notifications are read after both, so that none is missed.
func (s *Session) admit(c access.Client, hello *frame.Hello) {
	h := s.hub
	silent := c.Peek
	c.Peek = c.Peek || hello.Observe
	kept := s.open(c, hello.Fleeting)
	in := h.inboxAtHello(c.App, c.Recipient)
	s.mu.Lock()
	if s.state != verifying {
		s.mu.Unlock()
		kept.each(Part.Closed)
		return
	}
	s.app, s.recipient, s.device, s.peek = c.App, c.Recipient, c.Device, c.Peek
	if s.grants, s.ways = grantsOf(c), waysOf(hello); silent {
		s.ways &^= watching // a key without the right to acknowledge
	}
	_, _ = rand.Read(s.secret[:]) // never fails
	s.window = uint16(min(hello.Window, maxWindow))
	if s.window == 0 {
		s.window = uint16(h.cfg.Window)
	}
	replaced, first, ok := h.reg.add(address{s.app, s.recipient}, s)
	if !ok {
		s.goodbyeLocked(later(frame.TooManySessions))
		s.mu.Unlock()
		kept.each(Part.Closed)
		return
	}
	// Checked again after the registration: a drain or shutdown that began meanwhile either finds the session in the registry or is noticed
	// here.
	if g, refused := h.refuses(); refused {
		h.reg.remove(address{s.app, s.recipient}, s)
		s.goodbyeLocked(g)
		s.mu.Unlock()
		kept.each(Part.Closed)
		return
	}
	since := h.cfg.Now().Sub(h.start)
	now := instant(since / tick)
	s.state, s.behind, s.connected, s.grain = live, true, now, uint16(since%tick/grain)
	h.peers.Came(s.app, s.recipient, first)
	s.side = kept
	kept.each(Part.Join)
	s.welcome(c, hello, now, &in)
	s.recountLater(in.counts.Revision)
	kept.each(Part.Start)
	s.catchUpLocked()
	s.arm(s.nextWake(now))
	s.mu.Unlock()

	s.inboxAfterHello(&in)
	for _, o := range replaced {
		o.Goodbye(frame.Goodbye{Reason: frame.Replaced})
	}
	if !s.peek && !hello.Unseen {
		h.cfg.Store.Seen([]mailbox.Seen{{App: s.app, Recipient: s.recipient, Device: s.device, At: h.cfg.Now()}})
	}
	if len(hello.Held) > 0 {
		h.held.Add(s.app, heldCheck{s, hello.Held}) // if the queue is full, the next hello repeats the check
	}
}

// renewed sets the new expiry of a token for a session that is already live.
func (s *Session) renewed(c access.Client, hello *frame.Hello) {
	in := s.hub.inboxAtHello(c.App, c.Recipient)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != live {
		return
	}
	if c.App != s.app || c.Recipient != s.recipient {
		s.goodbyeLocked(frame.Goodbye{Reason: "forbidden", Refusal: true})
		return
	}
	now := s.hub.instant()
	c.Peek = s.peek
	s.renewParts(c)
	s.welcome(c, hello, now, &in)
	s.arm(s.nextWake(now))
}

// welcome sets the session's lifetime and heartbeat from a hello, and sends the welcome.
func (s *Session) welcome(c access.Client, hello *frame.Hello, now instant, in *inboxWelcome) {
	beat := hello.Heartbeat
	if beat == 0 {
		beat = defaultHeartbeat
	}
	s.heartbeat = ticks(min(max(beat, minHeartbeat), maxHeartbeat))
	s.rereadAt = s.firstReread(now)
	s.expires = 0
	if !c.Expires.IsZero() {
		s.expires = max(1, ticks(max(0, c.Expires.Sub(s.hub.start))))
	}
	digest, registrations, _ := s.digest()
	s.write(frame.ServerWelcome, frame.AppendWelcome(nil, s.t.Format(), &frame.Welcome{
		Session: s.ID(), App: s.app, Recipient: s.recipient, Heartbeat: time.Duration(s.heartbeat) * tick,
		Digest: digest, Registrations: registrations, ServerTime: s.hub.cfg.Now(), Inbox: in.frame(),
	}))
}

// Each lookup of a notification that a client still shows costs a read.
const (
	heldChecks = 4    // at once
	heldQueue  = 1024 // of an app that wait
)

// heldCheck lists the notifications that a client says it still shows.
type heldCheck struct {
	s    *Session
	held []string
}

// checkHeld sends the client recalls for the notifications it still shows that were settled meanwhile.
func (h *Hub) checkHeld(c heldCheck) {
	s := c.s
	var gone []string
	for _, id := range c.held {
		if h.ctx.Err() != nil {
			return
		}
		rs, err := s.hub.cfg.Store.Lookup(s.hub.ctx, s.app, id, s.recipient)
		if err == nil && (len(rs) == 0 || rs[0].Status.Settled(rs[0].Ack)) {
			gone = append(gone, id)
		}
	}
	if len(gone) > 0 {
		s.recall(gone)
	}
}

func (s *Session) recall(ids []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == live {
		s.write(frame.ServerRecall, frame.AppendRecall(nil, s.t.Format(), ids))
	}
}
