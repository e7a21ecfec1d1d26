package session

import (
	"crypto/sha256"
	"encoding/base64"
	"sync"
	"sync/atomic"

	"godwit.dev/godwit/internal/engine/timerwheel"
	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
)

// Session is one live connection of a recipient. An idle one is this struct and nothing else, so every field counts:
// data that only few sessions need is behind a pointer.
type Session struct {
	hub   *Hub
	t     Transport
	timer timerwheel.Timer[*Session]
	next  *Session // of the same recipient; guarded by the registry's shard

	// Set once by the hello, before the session is registered.
	app, recipient, device string
	secret                 [16]byte // the id: 128 random bits

	alive uint32 // instant of the last sign of life; atomic

	mu      sync.Mutex
	state   state
	peek    bool  // an observer: frames written to it are no deliveries
	behind  bool  // routed items are dropped until a store read has caught up
	queued  bool  // in the catch-up queue
	blocked bool  // the transport refused a write and has not drained since
	bad     uint8 // frames in a row that could not be understood
	window  uint16

	heartbeat instant // ticks
	wakeAt    instant // when the timer fires
	rereadAt  instant // next comparison with the store
	expires   instant // of the token; 0: never
	connected instant
	probedFor instant // the silence, by its last sign of life, that was probed
	grants    grants
	once      bool   // the client cannot acknowledge: notifications written to it stay in the mailbox, and are not written again
	grain     uint16 // of the tick in which it was welcomed

	last   uint64  // newest seq this session is up to date with
	missed uint64  // newest seq that was dropped while behind, since the last read began
	win    *window // nil while nothing is in flight
	side   *side   // nil for nearly all, once they have said hello
}

type state uint8

const (
	fresh     state = iota // no hello yet
	verifying              // hello is being checked; the transport is paused
	live
	over
)

// opening is the data that a session needs only until it is welcomed.
type opening struct {
	side  side // side points here until the hello is handled
	peer  Peer
	hello frame.Hello
}

// openings are reused: in a storm of connects they would leave holes between the sessions that stay.
var openings = sync.Pool{New: func() any { return new(opening) }}

// App returns the client's app, which is known once the session was welcomed.
func (s *Session) App() string { return s.app }

// ID is the session's secret identifier (128 random bits, 22 base64url characters), known once it was welcomed. Where there
// are several nodes, a dot and its node follow.
func (s *Session) ID() string {
	id := base64.RawURLEncoding.EncodeToString(s.secret[:])
	if s.hub.cfg.Node != "" {
		id += "." + s.hub.cfg.Node
	}
	return id
}

// name is how presence and acknowledgements know the session: its device, or a name no device can have, since "~" is
// not allowed in names.
func (s *Session) name() string {
	if s.device != "" {
		return s.device
	}
	sum := sha256.Sum256(s.secret[:]) // tells nothing of the secret
	return "~" + base64.RawURLEncoding.EncodeToString(sum[:9])
}

// Alive notes a sign of life that is not a frame: a pong, an HTTP/2 PING acknowledgement, a poll.
func (s *Session) Alive() { atomic.StoreUint32(&s.alive, uint32(s.hub.instant())) }

// Frame handles one client frame. Frames of one session must come one at a time, in order.
func (s *Session) Frame(f *frame.Client) {
	s.Alive()
	if f.Kind == frame.KindHello {
		s.hello(f.Hello)
		return
	}
	if acks := s.frame(f); len(acks) > 0 {
		s.hub.settleLater(acks)
	}
}

// frame handles any frame but a hello. The caller hands on the acknowledgements and nacks once the session is unlocked.
func (s *Session) frame(f *frame.Client) (acks []*mailbox.Settle) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != live {
		if s.state != over {
			s.badLocked(&frame.Error{Code: "hello_required", Message: "the first frame must be hello"})
		}
		return nil
	}
	s.bad = 0
	switch f.Kind {
	case frame.KindAck:
		return s.ack(f.IDs)
	case frame.KindNack:
		return s.nack(f.IDs, f.After, f.Reason)
	case frame.KindReply:
		if len(f.Reply.ID) > 0 {
			return s.reply(f.Reply)
		}
		s.use(f)
	case frame.KindPing:
		s.pong(f)
	default:
		s.use(f)
	}
	return nil
}

// Bad answers a frame that could not be decoded with an error frame; the session goes on, up to a limit. The sender of a
// request whose reply is broken gets the error at once.
func (s *Session) Bad(e *frame.Error) {
	s.Alive()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.badLocked(e)
	if e.Request != "" && s.state == live {
		s.use(&frame.Client{Kind: frame.KindReply, Reply: &frame.Reply{RequestID: []byte(e.Request), Broken: true}})
	}
}

func (s *Session) badLocked(e *frame.Error) {
	if s.state == over {
		return
	}
	s.write(frame.ServerError, frame.AppendError(nil, s.t.Format(), e))
	if s.bad++; s.bad >= maxBadFrames {
		s.goodbyeLocked(frame.Goodbye{Reason: "too_many_errors", Refusal: true})
	}
}

// Drained says that a transport which refused a write has room again.
func (s *Session) Drained() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.blocked = false
	s.catchUpLocked()
	s.side.each(Part.Drained)
}

// Closed says that the connection is gone. The session is over.
func (s *Session) Closed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endLocked()
	s.hub.wheel.Stop(&s.timer)
}

// Goodbye ends the session from the server's side.
func (s *Session) Goodbye(g frame.Goodbye) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.goodbyeLocked(g)
}

func (s *Session) goodbyeLocked(g frame.Goodbye) {
	if s.state == over {
		return
	}
	s.write(frame.ServerGoodbye, frame.AppendGoodbye(nil, s.t.Format(), g))
	s.endLocked()
	s.t.Close(g)
	s.hub.counts.goodbye(g.Reason)
}

// endLocked removes the session from all lists; its notifications in flight stay pending in the store.
func (s *Session) endLocked() {
	was := s.state
	s.state = over
	s.side.each(Part.Closed)
	s.side = nil
	if was != live {
		return
	}
	h := s.hub
	last := h.reg.remove(address{s.app, s.recipient}, s)
	if s.device == "" && s.win != nil {
		s.releaseAll()
	}
	s.win = nil
	h.peers.Left(s.app, s.recipient, last)
	if !s.peek {
		h.cfg.Store.Seen([]mailbox.Seen{{App: s.app, Recipient: s.recipient, Device: s.device, At: h.cfg.Now()}})
	}
}

// releaseAll makes the store check copies again that every device must acknowledge: this session without a device will
// not.
func (s *Session) releaseAll() {
	var batch []*mailbox.Settle
	for _, f := range s.win.flight {
		if f.all {
			batch = append(batch, &mailbox.Settle{
				App: s.app, Recipient: s.recipient, ID: f.id, Pos: f.pos, As: notification.Acked, Online: toBeFound,
				At: s.hub.cfg.Now(),
			})
		}
	}
	if len(batch) > 0 {
		s.hub.release.add(batch) // the session is locked
	}
}

// write sends one frame that is not a notification. One the transport has no room for is dropped: the transport
// then closes the connection or the client asks again.
func (s *Session) write(k frame.ServerKind, b []byte) bool { return s.t.Write(k, b, nil) }
