package godwit

import (
	"cmp"
	"slices"
	"time"
)

// registrations keep a client's registrations in agreement with the server's. They have no connections or goroutines:
// frames of the server go in, frames to send come out. The desired set has the objects that the program wants; its
// digest is compared with that of the server's set at every welcome, confirmation and heartbeat. Equal digests settle
// all pending changes without a further frame. If they differ for longer than an answer takes, the whole set is sent
// with reset, which the server swaps in at once, so that no wanted object is unregistered for a moment.
type registrations struct {
	group   string // the session's group; frames omit it
	entries map[objectKey]*entry
	digest  uint64 // digest of the wanted entries
	fresh   bool   // there is no state of an earlier run: the program may not yet have registered objects that the server has

	live       bool // welcomed
	summarised bool // the server has sent its digest on this connection
	stale      bool // some changes may not have been sent: otherwise the entries need not be searched
	reset      bool // the whole set must be sent
	resets     backoff
	noReset    time.Time // not before
	lastOp     time.Time // when registrations were last sent on this connection
	check      time.Time // when to request the server's digest; zero: at the next heartbeat
	acks       map[objectKey]Version
	acksAt     time.Time // when the acknowledgements are due, if there are any

	queue   []objectKey // objects with signals that wait for a handler
	changes []ObjectStatus
	version uint64 // grows with each change of the state file's content
}

// entry is one registration.
type entry struct {
	status RegistrationStatus
	sent   bool      // the change was sent on this connection
	again  time.Time // refused for now: not sent again before this time
	wait   backoff
	why    *RegistrationError

	handle  SignalHandler
	last    Version // newest known version that was handled
	unknown bool    // the last handled signal reported an unknown version
	floor   Version // of that
	anew    bool    // registered again: the current version is wanted even if it was handled before
	waiting *Signal // newest not handled
	running *Signal // being handled
	queued  bool
	retryAt time.Time // the handler failed: not called before this time
	retries backoff
}

const (
	// settlePatience is how long the answer to registrations may take. If digests still differ then, something was lost.
	settlePatience = 2 * time.Second
	// ackPatience is how long acknowledgements are collected, similar to TCP's delayed acknowledgements.
	ackPatience = 20 * time.Millisecond
	// maxFrameObjects is the maximum number of names in one frame: with names of 128 bytes, a frame is below 64 KB.
	maxFrameObjects = 256
)

func newRegistrations(group string) *registrations {
	return &registrations{
		group: group, entries: make(map[objectKey]*entry), acks: make(map[objectKey]Version), fresh: true,
		resets: backoff{base: connectBase, most: connectMost},
	}
}

func (e *entry) wanted() bool { return e.status == PendingRegistration || e.status == Registered }

func (e *entry) unsent() bool {
	return !e.sent && (e.status == PendingRegistration || e.status == PendingUnregistration)
}

// want registers an object. If it is registered already, the new handler replaces the old one.
func (k *registrations) want(key objectKey, handle SignalHandler) {
	e := k.entries[key]
	if e == nil {
		e = &entry{wait: backoff{base: connectBase, most: connectMost}, retries: backoff{base: connectBase, most: connectMost}}
		k.entries[key] = e
	}
	e.handle = handle
	if !e.wanted() {
		k.digest += key.hash()
		e.sent, e.why, e.again, e.wait.n, e.anew, k.stale = false, nil, time.Time{}, 0, e.last > 0, true
		k.set(key, e, PendingRegistration)
	}
	k.enqueue(key, e)
}

// drop unregisters an object.
func (k *registrations) drop(key objectKey) {
	e := k.entries[key]
	switch {
	case e == nil:
	case e.status == Refused:
		k.remove(key, e)
	case e.wanted():
		k.digest -= key.hash()
		e.sent, e.again, e.wait.n, e.waiting, k.stale = false, time.Time{}, 0, nil, true
		delete(k.acks, key)
		k.set(key, e, PendingUnregistration)
	}
}

func (k *registrations) set(key objectKey, e *entry, s RegistrationStatus) {
	if e.status != s {
		e.status = s
		k.version++
		k.changes = append(k.changes, e.view(key))
	}
}

func (k *registrations) remove(key objectKey, e *entry) {
	delete(k.entries, key)
	delete(k.acks, key)
	k.set(key, e, Unregistered)
}

func (e *entry) view(key objectKey) ObjectStatus {
	s := ObjectStatus{Group: key.group, Object: key.object, Status: e.status, Version: e.last, Unknown: e.unknown}
	if e.why != nil {
		s.Err = e.why
	}
	return s
}

// welcomed begins a connection. Frames of an earlier connection get no answer any more.
func (k *registrations) welcomed(digest string, now time.Time) {
	k.live, k.summarised, k.stale, k.reset, k.lastOp = true, false, true, false, time.Time{}
	k.check = now.Add(settlePatience) // asks for the digest if the welcome has none
	for _, e := range k.entries {
		e.sent, e.again = false, time.Time{}
	}
	k.compare(digest, now)
}

func (k *registrations) lost() { k.live, k.summarised = false, false }

// compare compares the server's digest with the client's; an empty digest means that the server does not know it yet.
func (k *registrations) compare(digest string, now time.Time) {
	theirs, ok := parseDigest(digest)
	if !ok || !k.live {
		return
	}
	first := !k.summarised
	k.summarised = true
	switch settled := k.lastOp.Add(settlePatience); {
	case theirs == k.digest:
		k.agree(first)
	case first && k.fresh:
		k.check = time.Time{} // only new registrations are sent; the next heartbeat shows whether something else differs
	case k.reset || !first && k.outstanding():
	case now.Before(settled):
		k.check = settled
	case now.Before(k.noReset):
		k.check = k.noReset
	default:
		k.reset = true
	}
}

// outstanding reports whether changes must still be sent, so that the digests cannot be equal.
func (k *registrations) outstanding() bool {
	if !k.stale {
		return false
	}
	for _, e := range k.entries {
		if e.unsent() {
			return true
		}
	}
	return false
}

// agree settles what is pending because both sets are equal. Unless all is true, changes that were not sent yet stay pending: the server
// may be about to carry out an earlier change that contradicts them.
func (k *registrations) agree(all bool) {
	k.fresh, k.reset, k.check, k.resets.n, k.noReset = false, false, time.Time{}, 0, time.Time{}
	for key, e := range k.entries {
		switch {
		case !all && !e.sent:
		case e.status == PendingRegistration:
			e.why = nil
			k.set(key, e, Registered)
		case e.status == PendingUnregistration:
			k.remove(key, e)
		}
	}
}

func (k *registrations) key(group, object string) objectKey {
	return objectKey{cmp.Or(group, k.group), object}
}

// registered handles a confirmation. A confirmation that contradicts the desired set changes nothing: the digests then differ, and the
// frames sent because of that correct the server's set.
func (k *registrations) registered(r *registered, now time.Time) {
	for _, name := range r.Objects {
		key := k.key(r.Group, name)
		if e := k.entries[key]; e != nil && e.status == PendingRegistration && e.sent {
			e.why, e.wait.n = nil, 0
			k.set(key, e, Registered)
		}
	}
	k.compare(r.Digest, now)
}

// failed handles a refusal. Refused for good, the object is in neither digest; refused for now, it is requested again later.
func (k *registrations) failed(f *registrationFailed, now time.Time) {
	for _, name := range f.Objects {
		key := k.key(f.Group, name)
		e := k.entries[key]
		if e == nil || e.status == Refused {
			continue
		}
		why := &RegistrationError{Group: key.group, Object: key.object, Code: f.Code, Transient: f.Transient}
		switch {
		case f.Transient:
			e.why, e.sent, e.again, k.stale = why, false, now.Add(e.wait.next()), true
			if e.status == Registered {
				e.status = PendingRegistration
			}
			k.changes = append(k.changes, e.view(key))
		case e.status == PendingUnregistration:
			k.remove(key, e)
		default:
			k.digest -= key.hash()
			e.why, e.waiting = why, nil
			delete(k.acks, key)
			k.set(key, e, Refused)
		}
	}
}

// take returns the frames to send now: none before the server has sent its digest. last means that these are the last frames on this connection.
func (k *registrations) take(now time.Time, last bool) (frames []*clientFrame) {
	if !k.live {
		return nil
	}
	if k.summarised {
		if k.reset {
			frames = k.whole()
			k.noReset = now.Add(k.resets.next())
		} else {
			frames = k.deltas(now)
		}
		if len(frames) > 0 {
			k.lastOp, k.check = now, now.Add(settlePatience)
		}
	}
	if !k.check.IsZero() && !now.Before(k.check) {
		frames = append(frames, k.ping())
	}
	if !last && len(frames) == 0 && now.Before(k.acksAt) {
		return nil
	}
	for key, v := range k.acks {
		frames = append(frames, &clientFrame{ObjectAck: &objectAck{key.object, k.left(key.group), v}})
	}
	clear(k.acks)
	return frames
}

// left returns a group's name for frames: empty if it is the session's group.
func (k *registrations) left(group string) string {
	if group == k.group {
		return ""
	}
	return group
}

func (k *registrations) ping() *clientFrame {
	k.check = time.Time{}
	return &clientFrame{Ping: &ping{formatDigest(k.digest)}}
}

// whole returns frames with the whole desired set, which the server replaces at once after the last frame.
func (k *registrations) whole() (frames []*clientFrame) {
	k.reset, k.fresh = false, false
	var keys []objectKey
	for key, e := range k.entries {
		e.sent, e.again = true, time.Time{}
		if e.wanted() {
			k.set(key, e, PendingRegistration)
			keys = append(keys, key)
		}
	}
	for _, r := range k.slices(keys) {
		r.Reset, r.More = true, true
		frames = append(frames, &clientFrame{Register: r})
	}
	if len(frames) == 0 {
		return []*clientFrame{{Register: &register{Objects: []string{}, Reset: true}}}
	}
	frames[len(frames)-1].Register.More = false
	return frames
}

// deltas returns frames with the changes that have not been sent.
func (k *registrations) deltas(now time.Time) (frames []*clientFrame) {
	if !k.stale {
		return nil
	}
	k.stale = false
	var in, out []objectKey
	for key, e := range k.entries {
		switch {
		case !e.unsent():
			continue
		case now.Before(e.again):
			k.stale = true
			continue
		case e.wanted():
			in = append(in, key)
		default:
			out = append(out, key)
		}
		e.sent = true
	}
	for _, r := range k.slices(out) {
		frames = append(frames, &clientFrame{Unregister: r})
	}
	for _, r := range k.slices(in) {
		frames = append(frames, &clientFrame{Register: r})
	}
	return frames
}

// slices distributes keys over frames, with one group in each frame.
func (k *registrations) slices(keys []objectKey) (frames []*register) {
	slices.SortFunc(keys, func(a, b objectKey) int {
		return cmp.Or(cmp.Compare(a.group, b.group), cmp.Compare(a.object, b.object))
	})
	var last *register
	for i, key := range keys {
		if last == nil || key.group != keys[i-1].group || len(last.Objects) == maxFrameObjects {
			last = &register{Group: k.left(key.group)}
			frames = append(frames, last)
		}
		last.Objects = append(last.Objects, key.object)
	}
	return frames
}

// sendAt returns when take has something to send without a further event; zero: never.
func (k *registrations) sendAt() (at time.Time) {
	if !k.live {
		return at
	}
	at = k.check
	if len(k.acks) > 0 && (at.IsZero() || k.acksAt.Before(at)) {
		at = k.acksAt
	}
	if !k.summarised || !k.stale {
		return at
	}
	for _, e := range k.entries {
		if e.unsent() && !e.again.IsZero() && (at.IsZero() || e.again.Before(at)) {
			at = e.again
		}
	}
	return at
}
