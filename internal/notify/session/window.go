package session

import (
	"slices"
	"sync"
	"time"

	"godwit.dev/godwit/internal/notify/mailbox"
)

// window is the state of a session with notifications in flight. Idle sessions, which are the most, have none.
type window struct {
	flight  []inflight
	off     int       // how many of flight were nacked and wait outside the window for redelivery
	crowded bool      // a nacked notification was due again while the window had no room
	acked   unsettled // by the client
	doubted instant   // when acked was last compared with the store
	written unsettled // what asks for no acknowledgement
}

// inflight is a notification that was written and not yet acknowledged: 40 bytes.
type inflight struct {
	pos     int64
	id      string
	due     instant // of the next redelivery
	attempt uint16
	all     bool   // every device must acknowledge
	step    steps  // further events that it waits for; 0: only its acknowledgement
	since   uint32 // time when it was due, in milliseconds of the hub's time modulo 2^32, since it may lie before the hub's start
}

// steps are the events, besides its acknowledgement, that a notification in flight may wait for.
type steps uint8

const (
	again steps = 1 << iota // a store read, after which it is delivered again
	off                     // the end of its delay after a nack: until then it is not in the window
)

func (f *inflight) is(s steps) bool { return f.step&s != 0 }

// unsettled are positions that the session has finished and the store has not settled yet: reads must exclude them.
type unsettled struct {
	at    []int64
	stale int // how many, from the first on, were there at the last comparison with the store
}

func (u *unsettled) drop(pos int64) {
	i := slices.Index(u.at, pos)
	if i < 0 {
		return
	}
	u.at = slices.Delete(u.at, i, i+1)
	if i < u.stale {
		u.stale--
	}
}

// windows are reused, so that a session which is busy now and then makes no garbage. Windows that grew in a burst are not kept.
var windows = sync.Pool{New: func() any { return new(window) }}

const keepWindow = 64 // most entries that a reused window may have memory for

// flight returns the notifications that wait for an acknowledgement, oldest first, inside and outside the window.
func (s *Session) flight() []inflight {
	if s.win == nil {
		return nil
	}
	return s.win.flight
}

func (s *Session) busy() *window {
	if s.win == nil {
		s.win, _ = windows.Get().(*window)
	}
	return s.win
}

func (s *Session) addFlight(f inflight) {
	w := s.busy()
	w.flight = append(w.flight, f)
}

// putOff takes a notification in flight out of the window for a while. If maxWindow are out already, it stays, which bounds a session's
// memory.
func (w *window) putOff(f *inflight) {
	if w.off < maxWindow {
		f.step |= off
		w.off++
	}
}

// putBack takes a notification into the window again.
func (w *window) putBack(f *inflight) {
	if f.is(off) {
		f.step &^= off
		w.off--
	}
}

// takeFlight removes the notification at index i. The position of an acknowledged one is kept until the store has settled it.
func (s *Session) takeFlight(i int, acked bool) {
	w := s.win
	w.putBack(&w.flight[i])
	if acked {
		w.acked.at = append(w.acked.at, w.flight[i].pos)
	}
	w.flight = slices.Delete(w.flight, i, i+1)
	s.leaveWindow()
	s.catchUpLocked()
}

// settledAck drops a position that the store has settled.
func (s *Session) settledAck(pos int64) {
	if w := s.win; w != nil {
		w.acked.drop(pos)
		w.written.drop(pos)
		s.leaveWindow()
	}
}

// ackedLasts is the least time for which reads exclude an acknowledged position: comparisons may follow each other quickly while a slow
// disk stores the acknowledgement.
const ackedLasts = 3 * time.Second

// forgetAcked runs at each comparison. It drops acknowledgements from before the last comparison that are still not settled, since the
// store has lost them. Newer ones may wait for a running commit.
func (s *Session) forgetAcked(now instant) {
	w := s.win
	if w == nil || w.acked.stale > 0 && now-w.doubted < ticks(ackedLasts) {
		return
	}
	w.acked.at = slices.Delete(w.acked.at, 0, w.acked.stale)
	w.acked.stale, w.doubted = len(w.acked.at), now
	s.leaveWindow()
}

// leaveWindow returns an empty window to the pool.
func (s *Session) leaveWindow() {
	w := s.win
	if len(w.flight) > 0 || len(w.acked.at) > 0 || len(w.written.at) > 0 {
		return
	}
	s.win = nil
	if cap(w.flight) <= keepWindow && cap(w.acked.at) <= keepWindow && cap(w.written.at) <= keepWindow {
		*w = window{flight: w.flight, acked: unsettled{at: w.acked.at}, written: unsettled{at: w.written.at}}
		windows.Put(w)
	}
}

// have lists the positions that a read must exclude, sorted.
func (w *window) have() []int64 {
	out := make([]int64, 0, len(w.flight)+len(w.acked.at)+len(w.written.at))
	for i := range w.flight {
		out = append(out, w.flight[i].pos)
	}
	out = append(append(out, w.acked.at...), w.written.at...)
	slices.Sort(out)
	return out
}

// has reports whether an item was written to this session and is not settled yet. If another item has its position, that one is no longer
// in the store.
func (s *Session) has(it *mailbox.Item) bool {
	w := s.win
	if w == nil {
		return false
	}
	if i := s.inFlightPos(it.Pos); i >= 0 {
		if w.flight[i].id == it.N.ID {
			return true
		}
		s.takeFlight(i, false)
		return false
	}
	return slices.Contains(w.acked.at, it.Pos) || slices.Contains(w.written.at, it.Pos)
}

func (s *Session) inFlight(id []byte) int {
	return slices.IndexFunc(s.flight(), func(f inflight) bool { return f.id == string(id) })
}

func (s *Session) inFlightPos(pos int64) int {
	return slices.IndexFunc(s.flight(), func(f inflight) bool { return f.pos == pos })
}
