package signal

import "godwit.dev/godwit/internal/objects/object"

// saves brings a client's set to disk. Its changes are numbered, and one save is under way at a time: it covers every
// change made before it, so that however many come meanwhile are stored by the next.
type saves struct {
	made  uint32 // changes so far
	phase savePhase
	disk  saved         // what the client is told
	ended chan struct{} // closed when the save under way has ended; nil: nobody waits
}

// saved is the set as of a change.
type saved struct {
	change uint32
	count  uint32
	digest object.Digest
}

type savePhase uint8

const (
	notSaving savePhase = iota
	saving
	saveFailed // the timer tries again
)

// change counts one more.
func (s *saves) change() { s.made++ }

// stored reports whether every change is on disk. While a save is under way one is not.
func (s *saves) stored() bool { return s.disk.change == s.made }

// due reports whether a save is to begin.
func (s *saves) due() bool { return !s.stored() && s.phase == notSaving }

// begin starts a save of the current set.
func (s *saves) begin(digest object.Digest, count int) saved {
	s.phase = saving
	return saved{change: s.made, count: uint32(count), digest: digest}
}

// end handles the result of the save.
func (s *saves) end(v saved, err error) {
	s.phase = notSaving
	if err != nil {
		s.phase = saveFailed
	} else {
		s.disk = v
	}
	if s.ended != nil {
		close(s.ended)
		s.ended = nil
	}
}

// retry allows another try of a save that failed.
func (s *saves) retry() {
	if s.phase == saveFailed {
		s.phase = notSaving
	}
}

// keep makes the set count as stored: it was read just now, or is never stored because it ends with its session.
func (s *saves) keep(digest object.Digest, count int) {
	s.disk = saved{change: s.made, count: uint32(count), digest: digest}
}

// wait returns what is closed when the save under way has ended, or nil if there is none.
func (s *saves) wait() <-chan struct{} {
	if s.phase != saving {
		return nil
	}
	if s.ended == nil {
		s.ended = make(chan struct{})
	}
	return s.ended
}
