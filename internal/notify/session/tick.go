package session

import (
	"sync/atomic"
	"time"

	"godwit.dev/godwit/internal/notify/frame"
)

// readRetry is the pause before another store read for a session whose read failed.
const readRetry = time.Second

// arm sets the session's only timer. All deadlines (heartbeat, redelivery, the token's end, the next comparison with the store) share it:
// tick handles those that have passed, and nextWake returns the next one.
func (s *Session) arm(at instant) {
	s.wakeAt = at
	s.hub.wheel.Set(&s.timer, time.Duration(at)*tick-s.hub.cfg.Now().Sub(s.hub.start))
}

// nextWake returns the earliest time at which something may be due.
func (s *Session) nextWake(now instant) instant {
	alive := instant(atomic.LoadUint32(&s.alive))
	silent := alive + s.heartbeat
	if s.probedFor == alive {
		silent += s.heartbeat
	}
	at := min(silent, s.rereadAt)
	if s.expires != 0 {
		at = min(at, s.expires)
	}
	for _, f := range s.flight() {
		if !f.is(again) {
			at = min(at, f.due)
		}
	}
	return max(at, now+1)
}

// tick runs when the timer fires.
func (s *Session) tick() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.hub.instant()
	switch s.state {
	case over:
		return
	case fresh:
		s.goodbyeLocked(frame.Goodbye{Reason: "hello_timeout", Refusal: true})
		return
	case verifying:
		s.arm(now + ticks(helloTimeout)) // verification has its own deadline
		return
	}
	if s.expires != 0 && now >= s.expires {
		s.goodbyeLocked(frame.Goodbye{Reason: "token_expired", Refusal: true})
		return
	}
	if !s.checkAlive(now) {
		return
	}
	s.checkDue(now)
	s.arm(s.nextWake(now))
}

// checkAlive probes a client that was silent for one heartbeat, and ends the session of one that was silent for two.
func (s *Session) checkAlive(now instant) bool {
	alive := instant(atomic.LoadUint32(&s.alive))
	switch silent := now - min(now, alive); {
	case silent >= 2*s.heartbeat:
		s.goodbyeLocked(frame.Goodbye{Reason: "heartbeat_timeout"})
		return false
	case silent >= s.heartbeat && s.probedFor != alive:
		s.probedFor = alive
		s.t.Probe()
	}
	return true
}

// checkDue queues a store read if a redelivery or comparison is due, or an earlier read failed.
func (s *Session) checkDue(now instant) {
	read := s.rereadAt <= now
	for i, flight := 0, s.flight(); i < len(flight); i++ {
		if f := &flight[i]; f.due <= now && !f.is(again) {
			f.step, read = f.step|again, true
		}
	}
	if read {
		s.readSoon()
		return
	}
	s.catchUpLocked()
}
