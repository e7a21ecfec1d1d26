package loadgen

import (
	"fmt"
	"time"

	"godwit.dev/godwit/internal/objects/object"
)

// Following makes subscribers register for objects. Each subscriber verifies by itself that it and the server agree on its registrations.
type Following struct {
	Group   string `json:"group"`
	Objects int    `json:"objects"` // registrations of each subscriber
	Pool    int    `json:"pool"`    // number of objects: subscriber n registers for those from n × Objects on, wrapping around
	Common  bool   `json:"common"`  // all register for CommonObject too, the only object that gets new versions
}

// CommonObject is the object that every subscriber may register for.
const CommonObject = "common"

// followed holds what subscribers with registrations share.
type followed struct {
	Following
	names  []string
	hashes []object.Digest
}

const objectPrefix = "o"

// ObjectName returns the name of object n.
func ObjectName(n int) string { return RecipientName(objectPrefix, n) }

func newFollowed(f *Following) *followed {
	if f == nil {
		return nil
	}
	all := &followed{Following: *f, names: make([]string, f.Pool), hashes: make([]object.Digest, f.Pool)}
	for i := range all.names {
		all.names[i] = ObjectName(i)
		all.hashes[i] = object.Key{Group: f.Group, Object: all.names[i]}.Hash()
	}
	if f.Common {
		all.names = append(all.names, CommonObject)
		all.hashes = append(all.hashes, object.Key{Group: f.Group, Object: CommonObject}.Hash())
	}
	return all
}

// each calls do for each object of subscriber n.
func (f *followed) each(n int, do func(i int)) {
	first := n * f.Objects
	for i := range f.Objects {
		do((first + i) % f.Pool)
	}
	if f.Common {
		do(f.Pool)
	}
}

func (f *followed) digest(n int) string {
	var d object.Digest
	f.each(n, func(i int) { d += f.hashes[i] })
	return d.String()
}

// registerSlice is the maximum number of objects in one frame.
const registerSlice = 500

// compare compares the server's digest with the expected one. At the first difference it sends all registrations; a second difference is an
// error.
func (s *subscriber) compare(digest []byte) error {
	f := s.s.followed
	switch {
	case f == nil || s.agreed || len(digest) == 0:
		return nil
	case string(digest) == f.digest(s.num):
		s.agreed, s.agreedAt = true, s.s.readAt
		s.s.agreed.Add(1)
		s.finish(nil)
		return nil
	case s.asked:
		return fmt.Errorf("after all registrations the server's digest is %s, not %s", digest, f.digest(s.num))
	}
	s.asked = true
	var names []string
	f.each(s.num, func(i int) { names = append(names, f.names[i]) })
	for len(names) > 0 {
		n := min(len(names), registerSlice)
		s.out = s.wire.say(s.out, s.s.registerFrame(names[:n], n < len(names)))
		names = names[n:]
	}
	return nil
}

// signalled handles a signal and acknowledges it.
func (s *subscriber) signalled(a arrival) {
	if a.unknown {
		s.s.unknown.Add(1)
		return
	}
	f := s.s.followed
	if f != nil && f.Objects > 1 && !f.Common {
		s.seen = seqs{} // new versions of several objects cannot be counted by one sequence
	}
	if f == nil || !f.Common || s.agreed && a.due > s.agreedAt { // a put from before the registration would count as a long delay
		s.s.arrived(s, a)
	}
	ack := s.s.objectAckFrame(a.id, a.seq)
	if s.s.cfg.AckAfter == 0 {
		s.out = s.wire.say(s.out, ack)
		return
	}
	s.late = s.wire.say(s.late, ack)
	s.s.ackLate(s)
}

// ackLate delays a subscriber's acknowledgements, and sends them together with those of all other subscribers. Otherwise a load generator
// with a thousand clients would send the last client's acknowledgement only after all others, a delay that clients in processes of their
// own do not have.
func (s *Subscribers) ackLate(sub *subscriber) {
	if !sub.waits {
		sub.waits = true
		s.late = append(s.late, sub)
	}
	if s.lateAt == 0 || s.readAt > s.lateAt+int64(s.cfg.AckAfter) { // no timer runs, or its wake-up was lost
		s.lateAt = s.readAt + int64(s.cfg.AckAfter)
		time.AfterFunc(s.cfg.AckAfter, sub.conn.Nudge)
	}
}

// sendLate sends the acknowledgements that are due. It runs on the loop.
func (s *Subscribers) sendLate() {
	if s.lateAt == 0 || Now() < s.lateAt {
		return
	}
	for _, sub := range s.late {
		sub.waits = false
		if len(sub.lateID) > 0 {
			sub.late, sub.acked = sub.wire.ack(sub.late, sub.lateID), Now()
			clear(sub.lateID)
			sub.lateID = sub.lateID[:0]
		}
		sub.conn.Write(sub.late, nil) // fails only if the connection is about to end
		sub.late = sub.late[:0]
	}
	s.late, s.lateAt = s.late[:0], 0
}

// objectJSON returns a put of the object's next version. All recipients are registered for the object.
func (c *PublishConfig) objectJSON() content {
	data, stamp := makeData(c.Size)
	b := []byte(`{"payload":`)
	stamp += len(b)
	return content{
		bytes: append(append(b, data...), '}'), stamps: []int{stamp}, copies: c.Recipients,
		method: "PUT", path: "/v1/objects/" + c.Object, mediaType: "application/json",
	}
}
