package reactor

import (
	"net"
	"os"
	"time"
)

// Spare is a descriptor in reserve. When the process has no other descriptor left, the accepting goroutine uses it to accept a connection
// and close it; left in the system's queue, that connection would delay all others. A Spare belongs to the goroutine that accepts.
type Spare struct{ file *os.File }

// NewSpare takes the descriptor.
func NewSpare() *Spare {
	s := new(Spare)
	s.Restore()
	return s
}

// shedWait is how long Shed waits for the connection that has no descriptor: the client may have closed it already.
const shedWait = 10 * time.Millisecond

// Shed closes the oldest connection in a listener's queue and reports whether there was one.
func (s *Spare) Shed(ln net.Listener) (closed bool) {
	s.Close()
	if d, ok := ln.(interface{ SetDeadline(t time.Time) error }); ok && d.SetDeadline(time.Now().Add(shedWait)) == nil {
		if nc, err := ln.Accept(); err == nil {
			_ = nc.Close()
			closed = true
		}
		_ = d.SetDeadline(time.Time{})
	}
	if s.Restore(); s.file == nil {
		time.Sleep(shedWait) // somebody else needed it more
	}
	return closed
}

// Restore takes the descriptor again, if somebody else got it in Shed.
func (s *Spare) Restore() {
	if s.file == nil {
		s.file, _ = os.Open(os.DevNull)
	}
}

// Close gives the descriptor back.
func (s *Spare) Close() {
	if s.file != nil {
		_ = s.file.Close()
		s.file = nil
	}
}
