package signal

import (
	"godwit.dev/godwit/internal/notify/session"
	"godwit.dev/godwit/internal/objects/object"
)

// reg is one registration of a client with a live session: 32 bytes, and 4 in the object's list of sessions.
type reg struct {
	acked, sent object.Version
	id          uint32 // of the watched object
	due         second // time of the next redelivery; 0: none
	attempt     uint8
	told        told
	wanted      bool // requested by a register frame: sent even if acknowledged or made by this client
}

// told is the kind of state that was last sent on this session.
type told uint8

const (
	toldNothing told = iota
	toldVersion      // sent is the version
	toldUnknown      // an unknown version was sent; sent is the version before it
)

// ask makes the state be sent whatever was sent before: the client does not know it.
func (r *reg) ask() { r.acked, r.wanted, r.due = 0, true, 0 }

// renewed returns the registration after a reset: requested and not acknowledged. It keeps the version that was last sent, so that no older
// one is sent after it.
func (r *reg) renewed() reg { return reg{id: r.id, wanted: true, sent: r.sent, told: r.told} }

// ack records an acknowledgement, and reports whether it is a new one. An older version never replaces a newer one.
func (r *reg) ack(v object.Version) bool {
	if v <= r.acked {
		return false
	}
	r.acked = v
	if v >= r.sent {
		r.due, r.attempt = 0, 0
	}
	return true
}

// needs reports whether a state has to be sent. Acknowledgements only prevent the sending of known versions: an unknown one is sent once on
// every session.
func (r *reg) needs(st *current, who *session.Client, now second) bool {
	switch {
	case r.wanted:
		return true
	case !st.Known:
		return r.told == toldNothing || st.Version > r.sent || st.Version == r.sent && r.told == toldVersion
	case st.Version <= r.acked:
		return false
	case r.told != toldNothing && r.sent > st.Version:
		return false // the state that was sent is newer
	case r.told != toldNothing && r.sent == st.Version:
		return r.told == toldVersion && r.due != 0 && now >= r.due
	}
	return !st.Origin.Is(who.Recipient, who.Device)
}

// wrote records that a state was sent, and reports whether it was a repetition. If the client acknowledges, it also schedules the
// redelivery.
func (r *reg) wrote(st *current, acks bool, now second) (again bool) {
	again = r.told == toldVersion && st.Known && r.sent == st.Version && !r.wanted
	if again {
		r.attempt = min(r.attempt+1, 100)
	} else {
		r.attempt = 1
	}
	r.sent, r.told, r.wanted, r.due = st.Version, toldVersion, false, 0
	switch {
	case !st.Known:
		r.told = toldUnknown
	case acks:
		r.due = now + backoff(r.attempt)
	}
	return again
}
