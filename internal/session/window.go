package session

import (
	"slices"
	"sync"
)

// window is what a busy session has to remember. An idle one has none: most sessions are idle.
type window struct {
	flight []inflight
	acked  []int64 // positions acknowledged and not yet settled by the store: a read must leave them out
	stale  int     // so many of acked, the first, were there at the last comparison with the store
}

// inflight is a notification that was written and not yet acknowledged: 32 bytes.
type inflight struct {
	pos     int64
	id      string
	due     instant // of the next redelivery
	attempt uint16
	all     bool // every device must acknowledge
	again   bool // redelivery waits for a store read
}

// windows are reused, so that a session which is busy now and then makes no garbage. What a burst has grown is not
// kept.
var windows = sync.Pool{New: func() any { return new(window) }}

const keepWindow = 64 // entries a window that is reused may have room for

// flight is what waits for an acknowledgement, oldest first.
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

// takeFlight removes what is at i. An acknowledged position stays known until the store has settled it.
func (s *Session) takeFlight(i int, acked bool) {
	w := s.win
	if acked {
		w.acked = append(w.acked, w.flight[i].pos)
	}
	w.flight = slices.Delete(w.flight, i, i+1)
	s.leaveWindow()
	s.catchUpLocked()
}

// settledAck forgets an acknowledged position.
func (s *Session) settledAck(pos int64) {
	if s.win == nil {
		return
	}
	if i := slices.Index(s.win.acked, pos); i >= 0 {
		s.win.acked = slices.Delete(s.win.acked, i, i+1)
		if i < s.win.stale {
			s.win.stale--
		}
		s.leaveWindow()
	}
}

// forgetAcked gives up waiting, at each comparison: what was acknowledged before the last one and has not been
// settled by now the store did not take. What is newer may wait for a commit under way.
func (s *Session) forgetAcked() {
	if w := s.win; w != nil {
		w.acked = slices.Delete(w.acked, 0, w.stale)
		w.stale = len(w.acked)
		s.leaveWindow()
	}
}

// leaveWindow gives an empty window back.
func (s *Session) leaveWindow() {
	w := s.win
	if len(w.flight) > 0 || len(w.acked) > 0 {
		return
	}
	s.win, w.stale = nil, 0
	if cap(w.flight) <= keepWindow && cap(w.acked) <= keepWindow {
		windows.Put(w)
	}
}

// have lists the positions that a read must leave out, sorted.
func (s *Session) have() []int64 {
	if s.win == nil {
		return nil
	}
	out := make([]int64, 0, len(s.win.flight)+len(s.win.acked))
	for i := range s.win.flight {
		out = append(out, s.win.flight[i].pos)
	}
	out = append(out, s.win.acked...)
	slices.Sort(out)
	return out
}

func (s *Session) inFlight(id []byte) int {
	return slices.IndexFunc(s.flight(), func(f inflight) bool { return f.id == string(id) })
}

func (s *Session) inFlightPos(pos int64) int {
	return slices.IndexFunc(s.flight(), func(f inflight) bool { return f.pos == pos })
}
