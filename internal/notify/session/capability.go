package session

import (
	"context"
	"slices"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/notify/frame"
)

// Capability is a function that sessions have in addition to their mailbox. A hub has a list of them and finds the one for a client's frame
// by the frame's kind.
type Capability interface {
	// Frames lists the kinds of client frames that the capability handles. A frame of the first kinds begins its use; the later kinds are
	// ignored in a session that has not begun to use it. No two capabilities share a kind.
	Frames() (first, later []frame.Kind)
	// Open prepares a verified client's Part. With load, which the hub sets for named devices before their welcome, it reads the device's
	// stored state and may take long. If nothing is stored it returns nil, and the session costs nothing. Without load it does not wait and
	// never returns nil. The next call to the Part is Join or Closed.
	Open(ctx context.Context, to Sender, who Client, load bool) Part
}

// Part is a capability's state in one session. Its methods do not wait and may be called with the session locked.
type Part interface {
	// Join makes this session the owner of the device's state; another session of the same device loses it. Nothing is sent before Start.
	Join()
	// Start reports that the client was welcomed.
	Start()
	// Frame handles a frame of one of the capability's kinds. The frame is borrowed.
	Frame(f *frame.Client)
	// Renew applies the rights of a client that sent a new token.
	Renew(who Client)
	// Drained reports that the session, which had refused a write, has room again.
	Drained()
	// Closed reports that the session has ended.
	Closed()
}

// Digester is a Part with a digest, which is sent in welcomes and pongs.
type Digester interface {
	// Digest returns the digest of the stored registrations, and their number. Empty: the digest is not known yet.
	Digest() (digest string, registrations int)
}

// Sender is the interface of a *Session for its capabilities.
type Sender interface {
	Format() frame.Format
	// Send writes one encoded frame of a kind; head is borrowed, tail is shared and immutable. False means that there was no room;
	// Part.Drained follows once there is, unless the session ends.
	Send(k frame.ServerKind, head, tail []byte) bool
	// Queued is how many bytes wait until the connection accepts them, as far as its gateway can count them.
	Queued() int
	// Cork holds back frames until Uncork, so that many of them are sent together. Uncork must follow soon.
	Cork()
	Uncork()
}

var _ Sender = (*Session)(nil)

// Client is the part of a verified client's data that capabilities need.
type Client struct {
	App, Recipient, Group, Device string
	Rights                        *Rights // shared, never changed; nil: only the right to register for all objects
	Only                          string  // the only group whose objects may be registered; empty: all groups
	Observer                      bool    // an observer is not expected to acknowledge anything
	Window                        uint16  // most notifications in flight; unknown for a part opened with load
}

// client makes the data for capabilities. special: the client's rights are not one of the sets in common. An observer counts as a client
// without a device: its registrations end with its session.
func client(c access.Client) (who Client, special bool) {
	who = Client{App: c.App, Recipient: c.Recipient, Group: c.Group, Device: c.Device}
	who.Rights, special = rights(c)
	if c.GroupBound {
		who.Only = c.Group
	}
	if who.Observer = c.Peek; who.Observer {
		who.Device = ""
	}
	return who, special
}

// side is the rarely needed data of a session: for its hello while that is verified, then for capabilities. It is nil if the client names
// no group, has no limits and uses no capability.
type side struct {
	opening *opening // until the hello
	who     Client
	parts   []Part // by capability; nil: the session does not use it
}

// plainSide makes the side of a client that needed none so far: it named no group, and its grants determine its rights.
func (s *Session) plainSide() *side {
	who, _ := client(access.Client{App: s.app, Recipient: s.recipient, Device: s.device, Peek: s.peek || s.ways.is(fleeting)})
	who.Observer = s.peek
	who.Rights = common[s.grants]
	return &side{who: who}
}

// handler is the capability for a kind of frame.
type handler struct {
	capability Capability // nil: none
	at         int        // in the hub's list
	first      bool       // the frame begins its use
}

// offer sets the capabilities of this hub's sessions.
func (h *Hub) offer(list []Capability) {
	h.capabilities = list
	for at, c := range list {
		first, later := c.Frames()
		for i, kinds := range [][]frame.Kind{first, later} {
			for _, k := range kinds {
				if h.handlers[k].capability != nil {
					panic("two capabilities handle the same frames") // a wrong setup of the program, which the first test finds
				}
				h.handlers[k] = handler{capability: c, at: at, first: i == 0}
			}
		}
	}
}

// Format returns the encoding of frames to the client.
func (s *Session) Format() frame.Format { return s.t.Format() }

// Send implements Sender. It takes no lock: transports allow writes from any goroutine.
func (s *Session) Send(k frame.ServerKind, head, tail []byte) bool { return s.t.Write(k, head, tail) }

// Queued implements Sender.
func (s *Session) Queued() int {
	if q, ok := s.t.(queuer); ok {
		return q.Queued()
	}
	return 0
}

// Cork implements Sender.
func (s *Session) Cork() {
	if c, ok := s.t.(Corker); ok {
		c.Cork()
	}
}

// Uncork implements Sender.
func (s *Session) Uncork() {
	if c, ok := s.t.(Corker); ok {
		c.Uncork()
	}
}

// open opens the capabilities' parts for a client that has just been verified. Nil: the client needs no side.
func (s *Session) open(c access.Client, fleeting bool) *side {
	h := s.hub
	if len(h.capabilities) == 0 {
		return nil
	}
	if fleeting {
		c.Device = ""
	}
	who, special := client(c)
	kept := side{who: who}
	needed := c.Group != "" || special
	for at := 0; at < len(h.capabilities) && who.Device != ""; at++ {
		if p := h.capabilities[at].Open(h.ctx, s, who, true); p != nil {
			kept.add(h, at, p)
			needed = true
		}
	}
	if !needed {
		return nil
	}
	x := kept
	return &x
}

func (x *side) add(h *Hub, at int, p Part) {
	if x.parts == nil {
		x.parts = make([]Part, len(h.capabilities))
	}
	x.parts[at] = p
}

// each calls do for each capability in use. x may be nil.
func (x *side) each(do func(Part)) {
	if x == nil {
		return
	}
	for _, p := range x.parts {
		if p != nil {
			do(p)
		}
	}
}

// use passes a frame to its capability.
func (s *Session) use(f *frame.Client) {
	to := &s.hub.handlers[f.Kind]
	if to.capability == nil {
		s.badLocked(&frame.Error{Code: frame.CodeUnsupported, Message: f.Kind.String() + " frames are not available on this server yet"})
		return
	}
	var p Part
	if s.side != nil && s.side.parts != nil {
		p = s.side.parts[to.at]
	}
	if p == nil {
		if !to.first {
			return // of what has ended meanwhile
		}
		p = s.begin(to.capability, to.at)
	}
	p.Frame(f)
}

// begin opens the session's part of a capability.
func (s *Session) begin(c Capability, at int) Part {
	if s.side == nil {
		s.side = s.plainSide()
	}
	who := s.side.who
	who.Window = s.window
	p := c.Open(s.hub.ctx, s, who, false)
	s.side.add(s.hub, at, p)
	p.Join()
	p.Start()
	return p
}

// Part returns the session's part of a capability, and opens it if there is none yet. Nil: the session has ended.
func (s *Session) Part(c Capability) Part {
	at := slices.Index(s.hub.capabilities, c)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != live || at < 0 {
		return nil
	}
	if s.side != nil && s.side.parts != nil && s.side.parts[at] != nil {
		return s.side.parts[at]
	}
	return s.begin(c, at)
}

// digest returns the digest and number of the client's registrations. ok is false if no part of the session has a digest.
func (s *Session) digest() (digest string, registrations int, ok bool) {
	if s.side != nil {
		for _, p := range s.side.parts {
			if d, is := p.(Digester); is {
				digest, registrations = d.Digest()
				return digest, registrations, true
			}
		}
	}
	return frame.EmptyDigest, 0, false
}

// pong answers a ping. If the client sent its digest, or has registrations, the pong contains the server's digest.
func (s *Session) pong(f *frame.Client) {
	digest, _, ok := s.digest()
	if !ok && len(f.Digest) == 0 {
		digest = ""
	}
	s.write(frame.ServerPong, frame.AppendPong(nil, s.t.Format(), digest))
}

// renewParts applies the rights of a new token.
func (s *Session) renewParts(c access.Client) {
	if len(s.hub.capabilities) == 0 {
		return
	}
	who, special := client(c)
	s.grants = grantsOf(c)
	if s.side == nil {
		if !special && who.Only == "" {
			return
		}
		s.side = s.plainSide()
	}
	s.side.who.Rights, s.side.who.Only = who.Rights, who.Only
	s.side.each(func(p Part) { p.Renew(s.side.who) })
}
