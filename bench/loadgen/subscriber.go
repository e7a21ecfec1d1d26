package loadgen

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"

	"godwit.dev/godwit/internal/engine/reactor"
)

// subscriber is one recipient's connection.
type subscriber struct {
	s      *Subscribers
	num    int
	conn   *reactor.Conn
	wire   wire
	seen   seqs
	acks   [][]byte
	fresh  int    // number of new notifications in this read
	out    []byte // output caused by this read
	late   []byte // what it acknowledges later
	lateID [][]byte
	acked  int64 // when it acknowledged notifications last
	waits  bool  // is in the list of subscribers with late output
	up     bool  // welcomed
	deaf   bool  // reads nothing after its welcome
	cut    bool  // we ended it
	asked  bool  // sent its registrations
	agreed bool  // the server's digest matches its registrations
	done   func(error)

	agreedAt int64 // by Now
}

// wire is a protocol that carries frames. Its methods are called on the connection's loop.
type wire interface {
	// begin returns the client's first bytes.
	begin() []byte
	// parse passes the complete frames in b to s and returns how many bytes it consumed. send is the answer that the protocol itself
	// requires.
	parse(b []byte, s *subscriber) (used int, send []byte, err error)
	// ack appends the bytes that acknowledge ids.
	ack(dst []byte, ids [][]byte) []byte
	// say appends the encoding of a frame. It appends nothing if the protocol has no such frames.
	say(dst, frame []byte) []byte
	// read understands a frame.
	read(frame []byte) (arrival, error)
}

var _ reactor.Handler = (*subscriber)(nil)

// Data implements reactor.Handler. It acknowledges the notifications of one read in one write, or collects acknowledgements to send them
// with later ones.
func (s *subscriber) Data(b []byte) (int, error) {
	s.acks, s.fresh = s.acks[:0], 0
	s.s.readAt = Now()
	used, send, err := s.wire.parse(b, s)
	if err != nil {
		return used, err
	}
	if len(s.acks) > 0 && !s.s.cfg.NoAcks {
		if s.collects() {
			s.collect()
		} else {
			send = s.wire.ack(send, s.acks)
			s.acked = s.s.readAt
		}
	}
	send, s.out = append(send, s.out...), nil
	if len(send) > 0 && !s.conn.Write(send, nil) {
		return used, errors.New("the server does not read acknowledgements")
	}
	if call := s.s.onArrival.Load(); call != nil {
		for range s.fresh {
			(*call)(s.num)
		}
	}
	return used, nil
}

// maxCollected is the number of collected acknowledgements that are sent at once: half of the usual window.
const maxCollected = 32

// collects reports whether acknowledgements wait for later ones, as in the client libraries: the last were sent a short time ago.
func (s *subscriber) collects() bool {
	after := int64(s.s.cfg.AckAfter)
	return after > 0 && s.s.readAt-s.acked < after && len(s.lateID)+len(s.acks) < maxCollected
}

func (s *subscriber) collect() {
	for _, id := range s.acks {
		s.lateID = append(s.lateID, bytes.Clone(id))
	}
	s.s.ackLate(s)
}

// frame takes one frame.
func (s *subscriber) frame(b []byte) error {
	a, err := s.wire.read(b)
	if err != nil {
		return fmt.Errorf("%w: %.100q", err, b)
	}
	if a.due > 0 {
		a.due -= s.s.ahead.Load()
	}
	switch a.kind {
	case welcome:
		return s.welcomed(a.digest)
	case agreement:
		return s.compare(a.digest)
	case signal:
		s.signalled(a)
	case refusal:
		return fmt.Errorf("the server refused registrations: %.200q", b)
	case notification:
		s.s.arrived(s, a)
		s.acks = append(s.acks, a.id)
	case gap:
		s.s.gaps.Add(int64(a.seq))
	case goodbye, failure:
		return fmt.Errorf("the server said %.200s", b)
	}
	return nil
}

// welcomed handles the frame that confirms that the session is open.
func (s *subscriber) welcomed(digest []byte) error {
	s.up = true
	if s.s.followed != nil {
		return s.compare(digest)
	}
	s.finish(nil)
	if s.deaf {
		s.conn.Pause()
	}
	return nil
}

// finish reports the result of connecting, once.
func (s *subscriber) finish(err error) {
	if s.done != nil {
		s.done(err)
		s.done = nil
	}
}

// Drained implements reactor.Handler.
func (s *subscriber) Drained() { s.s.sendLate() }

// Tick implements reactor.Handler.
func (s *subscriber) Tick(time.Time) {}

// Closed implements reactor.Handler.
func (s *subscriber) Closed(err error) {
	if errors.Is(err, io.EOF) {
		err = errors.New("the server closed the connection")
	}
	s.s.closed(s, err)
	s.finish(err)
}
