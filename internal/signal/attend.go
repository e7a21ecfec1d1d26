package signal

import (
	"errors"

	"godwit.dev/godwit/internal/frame"
	"godwit.dev/godwit/internal/mailbox"
)

// attend does for a client what has become due: store its set, answer, send, be gone.
func (c *Client) attend() {
	room, _ := rooms.Get().(*room)
	if v := c.settle(room); v != nil {
		c.svc.store.Save(v) // waits while the store has too much to do
	}
	room.free()
}

// settle does all but handing over what is to be stored, which may lie in room.
func (c *Client) settle(room *room) (save *Save) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queued = false
	if c.removed {
		return nil
	}
	l := c.link
	if l != nil && !c.loaded {
		c.loadAgain(l)
		return nil
	}
	if c.lasting() && c.loaded && c.saved != c.ops && c.saving == 0 && !c.failed && !c.noting {
		save = c.save(room)
	}
	switch {
	case l == nil:
		c.leaveRoster()
	case l.started && !l.blocked:
		c.tellAll(l, room)
	}
	return save
}

// tellAll sends what is due: answers, and if something may be missing, states. It is one write whatever their number.
func (c *Client) tellAll(l *link, room *room) {
	if len(c.answers) == 0 && !c.tell && !c.behind {
		return
	}
	l.peer.Cork()
	defer l.peer.Uncork()
	c.answerStored(l, room)
	if c.behind {
		c.catchUp(l)
	}
}

// loadAgain reads the stored registrations after a failure.
func (c *Client) loadAgain(l *link) {
	if !l.started || c.reading || c.wakeAt != 0 {
		return
	}
	c.reading = true
	c.svc.running.Go(func() { c.load(c.svc.ctx) })
}

// leaveRoster forgets a client that is away and wholly written down.
func (c *Client) leaveRoster() {
	if c.opening == 0 && c.saved == c.ops && c.saving == 0 && !c.touched {
		c.svc.live.remove(c)
	}
}

// save makes what the store is handed: the whole set. Changes that come meanwhile are stored after it, together.
func (c *Client) save(room *room) *Save {
	room.keys, room.progress = c.keysTo(room.keys[:0]), c.progressTo(room.progress[:0])
	op, digest, count := c.ops, c.digest, len(room.keys)
	c.saving = op
	c.svc.running.begin() // who attends is a task
	return &Save{ID: c.id, Keys: room.keys, SeenAt: c.svc.cfg.Now(), Progress: room.progress, Done: func(err error) {
		defer c.svc.running.end()
		c.mu.Lock()
		defer c.mu.Unlock()
		c.saving = 0
		if c.written != nil {
			close(c.written)
			c.written = nil
		}
		if err == nil {
			c.saved, c.stored, c.count = op, digest, count
		} else {
			c.notSaved(op, err)
		}
		c.later()
	}}
}

// notSaved leaves the change to the timer. Who asked for it learns that it is not stored, and may ask again.
func (c *Client) notSaved(op uint32, err error) {
	if !errors.Is(err, mailbox.ErrClosed) {
		c.svc.log.Warn("storing registrations failed, will try again", "app", c.id.App, "recipient", c.id.Recipient, "error", err)
	}
	c.failed = true
	c.arm(c.svc.second() + seconds(storeRetry))
	for i := range c.answers {
		if c.answers[i].op <= op {
			c.answers[i].lost = true
		}
	}
}

// answerStored tells the client of changes that are stored, or cannot be.
func (c *Client) answerStored(l *link, room *room) {
	for len(c.answers) > 0 {
		a := &c.answers[0]
		b, kind := room.frame[:0], frame.ServerRegistered
		switch {
		case a.lost && len(a.objects) > 0:
			kind = frame.ServerRegistrationFailed
			b = frame.AppendRegistrationFailed(b, l.format, &frame.RegistrationFailed{Group: a.group, Objects: a.objects, Code: codeStore, Transient: true})
		case a.lost || a.op <= c.saved:
			b = frame.AppendRegistered(b, l.format, &frame.Registered{Group: a.group, Objects: a.objects, Digest: c.stored.String()})
		default:
			return
		}
		room.frame = b
		if !l.send(kind, b, nil) {
			return
		}
		c.answers = c.answers[1:]
	}
	c.answers = nil
	if c.tell && l.send(frame.ServerRegistered, frame.AppendRegistered(nil, l.format, &frame.Registered{Digest: c.stored.String()}), nil) {
		c.tell = false
	}
}

// catchUp sends what the client does not have yet, newest versions only, as long as the session has room.
func (c *Client) catchUp(l *link) {
	now, next := c.svc.second(), second(0)
	c.behind = false
	for i := range c.regs {
		r := &c.regs[i]
		w := c.svc.index.get(r.id)
		if !c.offer(l, r, w, w.now.Load(), now) {
			c.behind = true
			if l.blocked {
				return
			}
		}
		if r.due != 0 && (next == 0 || r.due < next) {
			next = r.due
		}
	}
	if next != 0 {
		c.arm(next)
	}
}

// offer sends a state if the client needs it. False: it does, and cannot have it yet.
func (c *Client) offer(l *link, r *reg, w *watched, st *current, now second) bool {
	switch {
	case st == nil:
		return true // being read; who reads it offers it to all
	case r.wanted && (len(c.answers) > 0 || c.saved != c.ops && c.lasting()):
		return false // registered is answered first
	case !r.needs(st, l, now):
		return true
	case l.blocked || !l.started:
		return false
	}
	if !l.send(frame.ServerObject, nil, st.frame(w.key, l.format)) {
		return false
	}
	again := r.told && !r.unknown && st.Known && r.sent == st.Version && !r.wanted
	c.svc.counts.sent.Add(1)
	if again {
		c.svc.counts.resent.Add(1)
		r.attempt = min(r.attempt+1, 100)
	} else {
		r.attempt = 1
	}
	r.sent, r.told, r.unknown, r.wanted, r.due = st.Version, true, !st.Known, false, 0
	if st.Known && !l.who.Observer {
		r.due = now + backoff(r.attempt)
	}
	return true
}

// needs reports whether a state is to be sent. An acknowledgement holds back known versions only: an unknown one is
// told once on every session.
func (r *reg) needs(st *current, l *link, now second) bool {
	switch {
	case r.wanted:
		return true
	case !st.Known:
		return !r.told || st.Version > r.sent || st.Version == r.sent && !r.unknown
	case st.Version <= r.acked:
		return false
	case r.told && r.sent > st.Version:
		return false // what was sent since is newer
	case r.told && r.sent == st.Version:
		return !r.unknown && r.due != 0 && now >= r.due
	}
	return !st.Source.Is(l.who.Recipient, l.who.Device)
}
