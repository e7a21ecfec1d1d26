package signal

import (
	"cmp"
	"slices"

	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/objects/object"
)

// Codes of refused registrations.
const (
	codeForbidden = "forbidden"      // the token's patterns or group do not allow it
	codeTooMany   = "too_many"       // the device has the most registrations allowed
	codeNoGroup   = "group_required" // neither the frame nor the hello named a group
	codeStore     = "unavailable"    // could not be stored now
)

// asked handles a register or unregister frame.
func (l *liveSession) asked(f *frame.Client) {
	c := l.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.session != l {
		return
	}
	group := string(f.Group)
	if group == "" {
		group = l.who.Group
	}
	t := newScratch()
	defer t.free()
	keys := t.keys[:0]
	for _, o := range f.Objects {
		keys = append(keys, c.svc.index.key(c.id.App, group, o))
	}
	t.keys = keys
	switch {
	case group == "" && len(keys) > 0:
		l.refuse(group, keys, codeNoGroup, false)
		return
	case f.Kind == frame.KindUnregister:
		l.unregister(group, keys)
	case c.reset != nil || f.Reset:
		l.stage(group, keys, f.More, t)
	default:
		l.register(group, keys)
	}
}

// refuse answers refused registrations. The answer need not wait for a save.
func (l *liveSession) refuse(group string, keys []object.Key, code string, transient bool) {
	if len(keys) == 0 {
		return
	}
	r := &frame.RegistrationFailed{Group: group, Objects: names(keys), Code: code, Transient: transient}
	l.send(frame.ServerRegistrationFailed, frame.AppendRegistrationFailed(nil, l.format, r), nil)
	l.c.svc.counts.refused.Add(uint64(len(keys)))
}

// send writes a frame. If the session has no room, it waits until the session has drained.
func (l *liveSession) send(k frame.ServerKind, head, tail []byte) bool {
	if l.blocked {
		return false
	}
	l.blocked = !l.peer.Send(k, head, tail)
	return !l.blocked
}

func names(keys []object.Key) []string {
	out := make([]string, len(keys))
	for i, k := range keys {
		out[i] = k.Object
	}
	return out
}

// permit removes the objects that the client has no right to register for, and refuses them in an answer.
func (l *liveSession) permit(group string, keys []object.Key) (allowed []object.Key) {
	if l.who.Only == "" && l.who.Rights.AllObjects() {
		return keys
	}
	var forbidden []object.Key
	allowed = keys[:0]
	for _, k := range keys {
		if l.allowed(k) {
			allowed = append(allowed, k)
		} else {
			forbidden = append(forbidden, k)
		}
	}
	l.refuse(group, forbidden, codeForbidden, false)
	return allowed
}

// register adds objects. An object that is registered already is sent again: a client that registers does not know its state.
func (l *liveSession) register(group string, keys []object.Key) {
	c := l.c
	if c.phase != loaded {
		l.refuse(group, keys, codeStore, true)
		return
	}
	keys = l.permit(group, keys)
	if len(keys) == 0 {
		return
	}
	var added []reg
	var beyond []object.Key
	var done []object.Key
	for _, k := range keys {
		if w := c.svc.index.find(name{c.id.App, k}); w != nil {
			if r := c.find(w.id); r != nil {
				r.ask()
				done = append(done, k)
				continue
			}
			if slices.ContainsFunc(added, func(r reg) bool { return r.id == w.id }) {
				continue // named twice in this frame
			}
		}
		if len(c.regs)+len(added) >= c.svc.cfg.MaxRegistrations {
			beyond = append(beyond, k)
			continue
		}
		added = append(added, reg{id: c.join(k).id, wanted: true})
		done = append(done, k)
	}
	if len(added) > 0 {
		c.regs = append(c.regs, added...)
		c.sortRegs()
		c.changed()
	}
	l.refuse(group, beyond, codeTooMany, false)
	if len(done) > 0 {
		c.pending.add(c.saves.made, group, names(done))
	}
	c.behind = true
	c.touch() // an object that is registered again no longer counts as acknowledged
	c.later()
}

// unregister removes objects.
func (l *liveSession) unregister(group string, keys []object.Key) {
	c := l.c
	if c.phase != loaded {
		l.refuse(group, keys, codeStore, true)
		return
	}
	if c.reset != nil {
		c.reset.keys = slices.DeleteFunc(c.reset.keys, func(k object.Key) bool { return slices.Contains(keys, k) })
	}
	gone := make(map[uint32]bool, len(keys))
	for _, k := range keys {
		if w := c.svc.index.find(name{c.id.App, k}); w != nil && c.find(w.id) != nil && !gone[w.id] {
			gone[w.id] = true
			c.leave(w)
		}
	}
	if len(gone) > 0 {
		c.regs = slices.DeleteFunc(c.regs, func(r reg) bool { return gone[r.id] })
		c.sortRegs()
		c.changed()
	}
	c.pending.add(c.saves.made, "", nil)
	c.later()
}

// stage collects the frames of a reset and swaps the whole set when it is complete: an object that is in both the old and the new set stays
// registered all the time.
func (l *liveSession) stage(group string, keys []object.Key, more bool, t *scratch) {
	c := l.c
	if c.reset == nil {
		c.reset = &reset{}
		c.svc.counts.resyncs.Add(1)
	}
	keys = l.permit(group, keys)
	if most := max(0, c.svc.cfg.MaxRegistrations-len(c.reset.keys)); len(keys) > most {
		l.refuse(group, keys[most:], codeTooMany, false)
		keys = keys[:most]
	}
	whole := keys
	if more || len(c.reset.keys) > 0 {
		c.reset.keys = append(c.reset.keys, keys...)
		whole = c.reset.keys
	}
	c.reset.pending.add(0, group, names(keys))
	if more {
		return
	}
	answers := c.reset.pending.answers
	c.reset = nil
	c.swap(whole, t)
	for _, a := range answers {
		c.pending.add(c.saves.made, a.group, a.objects)
	}
}

// swap replaces the set. New objects are added before old ones are removed.
func (c *Client) swap(keys []object.Key, t *scratch) {
	before, old, x := c.digest, c.regs, &c.svc.index
	ws := t.watched[:0]
	for _, k := range keys {
		w, fresh := x.acquire(name{c.id.App, k})
		if fresh {
			c.svc.unread.add(w)
		}
		ws = append(ws, w)
	}
	t.watched = ws
	slices.SortFunc(ws, func(a, b *watched) int { return cmp.Compare(a.id, b.id) })
	next := make([]reg, 0, len(ws))
	for i, w := range ws {
		if i > 0 && w == ws[i-1] {
			x.release(w) // named twice
			continue
		}
		r := reg{id: w.id, wanted: true}
		if had := c.find(w.id); had != nil {
			r = had.renewed()
			x.release(w) // the object stays: one registration is enough
		} else {
			w.add(c.session)
			c.digest += w.hash
		}
		next = append(next, r)
	}
	c.regs = next
	for i := range old {
		if c.find(old[i].id) == nil {
			c.leave(x.get(old[i].id))
		}
	}
	first := c.phase.load()
	c.behind = true
	if first || c.digest != before || c.saves.disk.digest != c.digest {
		c.changed()
	}
	c.touch() // nothing is acknowledged any more
	c.later()
}

// acked handles an object_ack frame.
func (l *liveSession) acked(f *frame.Client) {
	c := l.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.session != l || l.who.Observer {
		return
	}
	group := string(f.Group)
	if group == "" {
		group = l.who.Group
	}
	w := c.svc.index.find(name{c.id.App, object.Key{Group: group, Object: string(f.Object)}})
	if w == nil {
		return
	}
	r := c.find(w.id)
	if r == nil || !r.ack(f.Version) {
		return
	}
	c.svc.counts.acked.Add(1)
	c.touch()
}
