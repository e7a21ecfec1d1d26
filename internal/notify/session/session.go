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

// Session is one live connection of a recipient. An idle session has no memory beyond this struct, so every field counts: data that only
// few sessions need is behind a pointer.
type Session struct {
	hub   *Hub
	t     Transport
	timer timerwheel.Timer[*Session]
	next  *Session // next session with the same hash; guarded by the registry's shard

	// Set once by the hello, before the session is registered.
	app, recipient, device string
	secret                 [16]byte // the id: 128 random bits

	alive uint32 // instant of the last sign of life; atomic

	mu      sync.Mutex
	state   state
	peek    bool  // an observer: frames written to it do not count as deliveries
	behind  bool  // routed items are dropped until a store read has delivered them
	queued  bool  // in the catch-up queue
	blocked bool  // the transport refused a write and has not drained since
	bad     uint8 // consecutive frames that could not be decoded
	window  uint16

	heartbeat instant // ticks
	wakeAt    instant // when the timer fires
	rereadAt  instant // next comparison with the store
	expires   instant // of the token; 0: never
	connected instant
	probedFor instant // value of alive for which a probe was sent
	grants    grants
	ways      ways
	grain     uint16 // in the tick in which it was welcomed

	last   uint64  // newest seq up to which the session has received everything
	missed uint64  // newest seq dropped while behind, since the last read began
	win    *window // nil while nothing is in flight
	side   *side   // nil for nearly all sessions after their hello
}

// ways are peculiarities of a client's protocol.
type ways uint8

const (
	once     ways = 1 << iota // it cannot acknowledge: notifications written to it stay in the mailbox, and are not written again
	quiet                     // a notification comes again only after a nack or on the next connection
	fleeting                  // registrations end with the session although it has a device
	unseen                    // it is not noted when its recipient was seen
	watching                  // it observes by its own choice, and may acknowledge
)

func (w ways) is(one ways) bool { return w&one != 0 }

func waysOf(hello *frame.Hello) (w ways) {
	if hello.Once {
		w |= once
	}
	if hello.Quiet {
		w |= quiet
	}
	if hello.Fleeting {
		w |= fleeting
	}
	if hello.Unseen {
		w |= unseen
	}
	if hello.Observe {
		w |= watching
	}
	return w
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

// openings are reused: in a storm of connects they would leave holes in memory between the sessions that stay.
var openings = sync.Pool{New: func() any { return new(opening) }}

// App returns the client's app, which is known after the welcome.
func (s *Session) App() string { return s.app }

// ID returns the session's secret identifier (128 random bits, 22 base64url characters), which exists after the welcome. With several
// nodes, a dot and the name of its node follow.
func (s *Session) ID() string {
	id := base64.RawURLEncoding.EncodeToString(s.secret[:])
	if s.hub.cfg.Node != "" {
		id += "." + s.hub.cfg.Node
	}
	return id
}

// name is the session's name in presence and acknowledgements: its device, or a name that no device can have, since "~" is not allowed in
// names.
func (s *Session) name() string {
	if s.device != "" {
		return s.device
	}
	sum := sha256.Sum256(s.secret[:]) // tells nothing of the secret
	return "~" + base64.RawURLEncoding.EncodeToString(sum[:9])
}

// Alive records a sign of life other than a frame: a pong, an HTTP/2 PING acknowledgement, a poll.
func (s *Session) Alive() { atomic.StoreUint32(&s.alive, uint32(s.hub.instant())) }

// Frame handles one client frame. The gateway must pass the frames of a session one at a time, in order.
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

// frame handles any frame except a hello. The caller passes the acknowledgements and nacks on after the session is unlocked.
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

// Once sets whether the client can acknowledge no notification; see frame.Hello. It is for protocols whose clients choose while they are
// connected.
func (s *Session) Once(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if on {
		s.ways |= once
	} else {
		s.ways &^= once
	}
}

// Bad answers a frame that could not be decoded with an error frame; after too many in a row the session ends. If the frame is an invalid
// reply to a request, the asker gets the error at once.
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

// Drained reports that the transport, which had refused a write, has room again.
func (s *Session) Drained() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.blocked = false
	s.catchUpLocked()
	s.side.each(Part.Drained)
}

// Closed reports that the connection is gone, and ends the session.
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
	if g.Reason == frame.Erased {
		s.ways |= unseen // noted once more, the recipient would be there again
	}
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
	h.recounts.drop(s)
	h.peers.Left(s.app, s.recipient, last)
	if !s.peek && !s.ways.is(unseen) {
		h.cfg.Store.Seen([]mailbox.Seen{{App: s.app, Recipient: s.recipient, Device: s.device, At: h.cfg.Now()}})
	}
}

// releaseAll makes the store check again the copies that every device must acknowledge: this session, which has no device, will not
// acknowledge them.
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

// write sends one frame that is not a notification. If the transport has no room, the frame is dropped: then the transport closes the
// connection, or the client sends its request again.
func (s *Session) write(k frame.ServerKind, b []byte) bool { return s.t.Write(k, b, nil) }
