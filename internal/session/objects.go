package session

import (
	"context"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/frame"
)

// Objects is the capability of signals as sessions see it.
type Objects interface {
	// Open prepares the registrations of a verified client's session. With load it reads those of its device and may
	// take long; what comes back is nil if there are none, and the session costs nothing then. Without load it does not
	// wait and is never nil. What it returns gets Join or Closed.
	Open(ctx context.Context, p ObjectPeer, who ObjectClient, load bool) ObjectSession
}

// ObjectSession is one session's registrations. Its methods do not wait and may be called with the session locked.
type ObjectSession interface {
	// Join gives the registrations to this session; another of the same device loses them. Nothing is sent before Start.
	Join()
	// Start says that the client was welcomed.
	Start()
	// Digest is the digest of what is registered and stored, and how many objects that is. Empty: not known yet.
	Digest() (digest string, registrations int)
	// Register handles a register or unregister frame. The frame is borrowed.
	Register(f *frame.Client)
	// Ack handles an object_ack frame.
	Ack(f *frame.Client)
	// Renew takes new rights of a client that showed a new token.
	Renew(who ObjectClient)
	// Drained says that a session which refused a write has room again.
	Drained()
	// Closed says that the session is over.
	Closed()
}

// ObjectPeer is a session as signals see it: *Session.
type ObjectPeer interface {
	Format() frame.Format
	// Send writes one encoded frame of a kind; head is borrowed, tail is shared and immutable. False: there was no room;
	// ObjectSession.Drained follows once there is, unless the session ends.
	Send(k frame.ServerKind, head, tail []byte) bool
	// Cork has what is sent wait for Uncork, so that many frames leave together. Uncork must follow soon.
	Cork()
	Uncork()
}

var _ ObjectPeer = (*Session)(nil)

// ObjectClient is what registrations need to know of a verified client.
type ObjectClient struct {
	App, Recipient, Group, Device string
	Patterns                      []string // of objects that may be registered; nil: all
	Only                          string   // the one group whose objects may be registered; empty: all
	Observer                      bool     // only looks on: nothing is expected to be acknowledged
}

// objectSide is what a session keeps for objects: nothing at all if the client names no group, has no limits and
// registers nothing.
type objectSide struct {
	who     ObjectClient
	session ObjectSession // nil until something is registered
}

// Format is how frames to the client are encoded.
func (s *Session) Format() frame.Format { return s.t.Format() }

// Send implements ObjectPeer. It takes no lock: transports take writes from anywhere.
func (s *Session) Send(k frame.ServerKind, head, tail []byte) bool { return s.t.Write(k, head, tail) }

// Cork implements ObjectPeer.
func (s *Session) Cork() {
	if c, ok := s.t.(Corker); ok {
		c.Cork()
	}
}

// Uncork implements ObjectPeer.
func (s *Session) Uncork() {
	if c, ok := s.t.(Corker); ok {
		c.Uncork()
	}
}

// openObjects joins a client that has just been verified with its registrations.
func (s *Session) openObjects(c access.Client) *objectSide {
	if s.hub.cfg.Objects == nil {
		return nil
	}
	o := &objectSide{who: objectClient(c)}
	if o.who.Device != "" {
		o.session = s.hub.cfg.Objects.Open(s.hub.ctx, s, o.who, true)
	}
	if o.session == nil && c.Group == "" && c.Objects == nil {
		return nil
	}
	return o
}

// close ends the registrations of a client that was not admitted after all.
func (o *objectSide) close() {
	if o != nil && o.session != nil {
		o.session.Closed()
	}
}

// objectClient takes what registrations need. An observer's device is not its own: what it registers ends with its
// session.
func objectClient(c access.Client) ObjectClient {
	o := ObjectClient{App: c.App, Recipient: c.Recipient, Group: c.Group, Device: c.Device, Patterns: c.Objects}
	if c.GroupBound {
		o.Only = c.Group
	}
	if o.Observer = c.Peek; o.Observer {
		o.Device = ""
	}
	return o
}

// objects is the session's registrations, or nil.
func (s *Session) objects() ObjectSession {
	if s.side == nil || s.side.objects == nil {
		return nil
	}
	return s.side.objects.session
}

// objectSide is what the session keeps for objects, made if there is none: the client then named no group and has no
// limits.
func (s *Session) objectSide() *objectSide {
	if s.side == nil {
		s.side = new(side)
	}
	if s.side.objects == nil {
		s.side.objects = &objectSide{who: objectClient(access.Client{App: s.app, Recipient: s.recipient, Device: s.device, Peek: s.peek})}
	}
	return s.side.objects
}

// objectFrame handles register, unregister and object_ack.
func (s *Session) objectFrame(f *frame.Client) {
	if s.hub.cfg.Objects == nil {
		s.badLocked(&frame.Error{Code: "unsupported", Message: "objects are not available on this server"})
		return
	}
	o := s.objects()
	if o == nil {
		if f.Kind == frame.KindObjectAck {
			return // of what is no longer registered
		}
		side := s.objectSide()
		o = s.hub.cfg.Objects.Open(s.hub.ctx, s, side.who, false)
		side.session = o
		o.Join()
		o.Start()
	}
	if f.Kind == frame.KindObjectAck {
		o.Ack(f)
		return
	}
	o.Register(f)
}

// digest is what the server says of the client's registrations. Without objects there is nothing to say.
func (s *Session) digest() (digest string, registrations int) {
	if o := s.objects(); o != nil {
		return o.Digest()
	}
	return frame.EmptyDigest, 0
}

// pong answers a ping; a client that sent its digest, or has registrations, gets the server's.
func (s *Session) pong(f *frame.Client) {
	digest := ""
	if len(f.Digest) > 0 || s.objects() != nil {
		digest, _ = s.digest()
	}
	s.write(frame.ServerPong, frame.AppendPong(nil, s.t.Format(), digest))
}

// renewObjects takes the rights of a new token.
func (s *Session) renewObjects(c access.Client) {
	if s.hub.cfg.Objects == nil {
		return
	}
	who := objectClient(c)
	if s.side == nil && who.Patterns == nil && who.Only == "" {
		return
	}
	o := s.objectSide()
	o.who.Patterns, o.who.Only = who.Patterns, who.Only
	if o.session != nil {
		o.session.Renew(o.who)
	}
}
