package signal

import "godwit.dev/godwit/internal/objects/object"

// saves stores a client's set. Its changes are numbered, and only one save runs at a time: it covers every change made before it, and the
// next one covers all changes made meanwhile.
type saves struct {
	made  uint32 // changes so far
	phase savePhase
	disk  saved         // what the client is told
	ended chan struct{} // closed when the running save has ended; nil: no goroutine waits
}

// saved is the state of the set after a change.
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

// stored reports whether every change is on disk. It is false while a save is running.
func (s *saves) stored() bool { return s.disk.change == s.made }

// due reports whether a save has to begin.
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

// keep makes the set count as stored: it was just read, or is never stored because it ends with its session.
func (s *saves) keep(digest object.Digest, count int) {
	s.disk = saved{change: s.made, count: uint32(count), digest: digest}
}

// wait returns a channel that is closed when the running save has ended, or nil if none is running.
func (s *saves) wait() <-chan struct{} {
	if s.phase != saving {
		return nil
	}
	if s.ended == nil {
		s.ended = make(chan struct{})
	}
	return s.ended
}
