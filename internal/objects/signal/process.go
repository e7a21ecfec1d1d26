package signal

import (
	"errors"

	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/objects/object/objectstore"
)

// process does a client's pending work: it stores the set, answers, sends states, and drops a finished client.
func (c *Client) process() {
	t := newScratch()
	if v := c.advance(t); v != nil {
		c.svc.store.Save(v) // waits while the store has too much work
	}
	t.free()
}

// advance does all work except passing the save to the store. The save may use scratch memory.
func (c *Client) advance(t *scratch) (save *objectstore.Save) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queued = false
	if c.phase == removed {
		return nil
	}
	l := c.session
	if l != nil && c.phase != loaded {
		c.loadAgain(l)
		return nil
	}
	if c.saves.due() && !c.progress.busy() {
		save = c.save(t)
	}
	switch {
	case l == nil:
		c.leaveRoster()
	case l.started && !l.blocked:
		c.tellAll(l, t)
	}
	return save
}

// tellAll sends the answers that are ready, and states if some may be missing, all in one write.
func (c *Client) tellAll(l *liveSession, t *scratch) {
	if c.pending.none() && !c.behind {
		return
	}
	l.peer.Cork()
	defer l.peer.Uncork()
	c.answerStored(l, t)
	if c.behind {
		c.catchUp(l)
	}
}

// loadAgain repeats a failed read of the stored registrations.
func (c *Client) loadAgain(l *liveSession) {
	if l.started && c.wakeAt == 0 && c.phase.reread() {
		c.svc.running.Go(func() { c.load(c.svc.ctx) })
	}
}

// leaveRoster drops a client that has no session and is completely stored.
func (c *Client) leaveRoster() {
	if c.opening == 0 && c.saves.stored() && c.progress == progressStored {
		c.svc.roster.remove(c)
	}
}

// save makes a save of the whole set. Changes during the save are stored after it, together.
func (c *Client) save(t *scratch) *objectstore.Save {
	t.keys, t.progress = c.keysTo(t.keys[:0]), c.progressTo(t.progress[:0])
	v := c.saves.begin(c.digest, len(t.keys))
	c.svc.running.begin() // cannot fail: the goroutine that processes the client is a task too
	return &objectstore.Save{ID: c.id, Keys: t.keys, SeenAt: c.svc.cfg.Now(), Progress: t.progress, Done: func(err error) {
		defer c.svc.running.end()
		c.mu.Lock()
		defer c.mu.Unlock()
		c.saves.end(v, err)
		if err != nil {
			c.notSaved(v.change, err)
		}
		c.later()
	}}
}

// notSaved schedules another save after a failed one. The client learns that the change is not stored, and may try again.
func (c *Client) notSaved(change uint32, err error) {
	if !errors.Is(err, mailbox.ErrClosed) {
		c.svc.log.Warn("storing registrations failed, will try again", "app", c.id.App, "recipient", c.id.Recipient, "error", err)
	}
	c.arm(c.svc.second() + seconds(storeRetry))
	c.pending.lose(change)
}

// answerStored answers changes that are stored, or whose save failed.
func (c *Client) answerStored(l *liveSession, t *scratch) {
	for a := c.pending.next(c.saves.disk.change); a != nil; a = c.pending.next(c.saves.disk.change) {
		b, kind := t.frame[:0], frame.ServerRegistered
		if a.lost && len(a.objects) > 0 {
			kind = frame.ServerRegistrationFailed
			b = frame.AppendRegistrationFailed(b, l.format, &frame.RegistrationFailed{Group: a.group, Objects: a.objects, Code: codeStore, Transient: true})
		} else {
			b = frame.AppendRegistered(b, l.format, &frame.Registered{Group: a.group, Objects: a.objects, Digest: c.saves.disk.digest.String()})
		}
		t.frame = b
		if !l.send(kind, b, nil) {
			return
		}
		c.pending.pop()
	}
}

// catchUp sends the states that the client lacks, only the newest versions, as long as the session has room.
func (c *Client) catchUp(l *liveSession) {
	now, next := c.svc.second(), second(0)
	c.behind = false
	for i := range c.regs {
		r := &c.regs[i]
		w := c.svc.index.get(r.id)
		if w.held.Load() && r.told != toldNothing && !r.wanted {
			continue // the session has an earlier state, and gets the next when the interval ends
		}
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

// offer sends a state if the client needs it. False: the client needs it, and it cannot be sent yet.
func (c *Client) offer(l *liveSession, r *reg, w *watched, st *current, now second) bool {
	switch {
	case st == nil:
		return true // the state is being read; the reading goroutine will offer it to all sessions
	case r.wanted && (!c.pending.none() || !c.saves.stored()):
		return false // registered is answered first
	case !r.needs(st, &l.who, now):
		return true
	case l.blocked || !l.started:
		return false
	}
	if !l.send(frame.ServerObject, nil, st.frame(w.key, l.format)) {
		return false
	}
	c.svc.counts.sent.Add(1)
	if r.wrote(st, !l.who.Observer, now) {
		c.svc.counts.resent.Add(1)
	}
	return true
}
