// Package reactor serves many mostly idle connections with little memory: epoll loops read into a shared buffer
// and hand the bytes to a push parser; writes go out inline and are queued only when the socket is full. It knows
// bytes, not notifications. Where there is no epoll a portable driver runs the same handlers with one bufferless
// goroutine a connection.
package reactor

import "time"

// Handler is the protocol on a connection. The reactor calls Data, Tick, Drained and Closed one at a time per
// connection, from the connection's loop, holding no lock.
type Handler interface {
	// Data parses b and returns how many bytes it is done with; the rest comes again, with more behind it. b is
	// valid, and may be overwritten by the handler, only until Data returns. An error closes the connection.
	Data(b []byte) (used int, err error)
	// Drained is called when a write queue that had refused a write, or had been behind, is empty again.
	Drained()
	// Tick is called when the time set by Conn.SetTimer has come.
	Tick(now time.Time)
	// Closed is the last call, once, after the descriptor is closed. err says why (io.EOF: the peer ended it).
	Closed(err error)
}

// Config bounds a reactor.
type Config struct {
	Loops      int    // epoll loops; 0: one per CPU
	Driver     string // "epoll", "goroutine", or "" for the best there is
	QueueBytes int    // most bytes queued on one connection; an empty queue takes one write of any size. 0: 256 KiB
	InputBytes int    // most bytes of an incomplete frame kept between reads; 0: 1 MiB (a handler may refuse earlier)
	TotalBytes int64  // most bytes queued on all; beyond it the largest queues are closed. 0: a quarter of the memory limit
}
