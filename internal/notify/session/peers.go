package session

import (
	"context"
	mrand "math/rand/v2"
	"time"

	"godwit.dev/godwit/internal/feeds/event"
	"godwit.dev/godwit/internal/notify/frame"
)

// Peers is the interface of a hub to the other nodes. All methods except Flush are called with sessions locked: they must only record the
// call, not wait, and not call the hub.
type Peers interface {
	// Came reports that a session is registered here: from now on, or at the latest when Flush returns, notifications for its recipient
	// must be routed to this node. first: the recipient's other sessions here are all observers.
	Came(app, recipient string, first bool)
	// Left reports that a session has ended. last: the recipient's remaining sessions here are all observers.
	Left(app, recipient string, last bool)
	// Flush returns once all earlier calls of Came are in effect on this node.
	Flush(ctx context.Context) error
	// Online names the recipient's devices on other nodes, as far as this node knows them without a query.
	Online(app, recipient string) []string
}

// nobody is used by a hub without other nodes.
type nobody struct{ h *Hub }

func (p nobody) Came(app, recipient string, first bool) {
	if first {
		p.h.Emit(event.Online, app, recipient)
	}
}

func (p nobody) Left(app, recipient string, last bool) {
	if last {
		p.h.Emit(event.Offline, app, recipient)
	}
}

func (nobody) Flush(context.Context) error    { return nil }
func (nobody) Online(string, string) []string { return nil }

// Other nodes learn of a new session some moments later, and notifications that they route before that do not reach it. So the session
// compares itself with the store soon after its hello.
const (
	rereadFirst = time.Second
	rereadNext  = 5 * time.Second
)

// firstReread returns when a session compares itself with the store for the first time. Without other nodes, sessions that connect together
// get different times.
func (s *Session) firstReread(now instant) instant {
	if s.hub.several {
		return now + ticks(rereadFirst)
	}
	reread := ticks(s.hub.cfg.Reread)
	return now + reread - instant(mrand.Uint32N(uint32(reread)))
}

// nextReread returns when a session that compares itself now does so again.
func (s *Session) nextReread(now instant) instant {
	reread := ticks(s.hub.cfg.Reread)
	if again := s.connected + ticks(rereadNext); s.hub.several && now < again {
		return min(again, now+reread)
	}
	return now + reread - instant(mrand.Uint32N(max(uint32(reread)/4, 1)))
}

// fresh reports whether peers may not have learnt of a session yet.
func (s *Session) fresh(now instant) bool {
	return s.hub.several && now-min(now, s.connected) <= ticks(rereadNext)
}

// Reread makes the sessions of a recipient compare themselves with the store, since a message for the recipient may be missing.
func (h *Hub) Reread(app, recipient string) {
	var found [4]*Session
	for _, s := range h.reg.find(address{app, recipient}, found[:0]) {
		s.reread()
	}
}

// RereadAll makes all sessions compare themselves with the store, since any recipient's messages may be missing.
func (h *Hub) RereadAll() {
	var some []*Session
	for i := range h.reg.shards {
		some = h.reg.shards[i].sessions(some[:0])
		for _, s := range some {
			s.reread()
		}
	}
}

// reread marks a session as behind until it has compared itself with the store.
func (s *Session) reread() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == live {
		s.recountLater(anyRevision)
		s.rereadAt = s.hub.instant()
		s.readSoon()
	}
}

// EachHere calls f with the recipient of every session on this node, observers excepted.
func (h *Hub) EachHere(f func(app, recipient string)) {
	h.reg.each(func(a address) { f(a.app, a.recipient) })
}

// Device is the data of a session that other nodes need.
type Device struct {
	Name  string    // name of the device, or one made for this session
	Named bool      // Name is a device's name
	Since time.Time // in whole microseconds, the precision in which nodes exchange it
}

// Since returns when the session was welcomed, by the store's clock, on which nodes agree to some milliseconds.
func (s *Session) Since() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.since()
}

// since does the same as Since; the lock must be held.
func (s *Session) since() time.Time {
	return s.hub.start.Add(time.Duration(s.connected)*tick + time.Duration(s.grain)*grain).Truncate(time.Microsecond)
}

// Here lists a recipient's sessions on this node, observers excepted.
func (h *Hub) Here(app, recipient string) (list []Device) {
	var found [4]*Session
	for _, s := range h.reg.find(address{app, recipient}, found[:0]) {
		s.mu.Lock()
		if s.state == live && !s.peek {
			list = append(list, Device{Name: s.name(), Named: s.device != "", Since: s.since()})
		}
		s.mu.Unlock()
	}
	return list
}

// Emit reports to followers that a recipient is now online or offline.
func (h *Hub) Emit(t event.Type, app, recipient string) {
	if h.cfg.Events != nil {
		h.cfg.Events.Emit([]event.Event{{App: app, Type: t, At: h.cfg.Now(), To: recipient}})
	}
}

// Replaced reports that a device connected to another node at by.Since, and ends its earlier sessions here. lesser decides between sessions
// that began at the same time.
func (h *Hub) Replaced(app, recipient string, by Device, lesser bool) {
	var found [4]*Session
	for _, s := range h.reg.find(address{app, recipient}, found[:0]) {
		if s.device != by.Name || !by.Named {
			continue
		}
		s.mu.Lock()
		since := s.since()
		former := s.state == live && (since.Before(by.Since) || lesser && since.Equal(by.Since))
		s.mu.Unlock()
		if former {
			s.Goodbye(frame.Goodbye{Reason: frame.Replaced})
		}
	}
}
