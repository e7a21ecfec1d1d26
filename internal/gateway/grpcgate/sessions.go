package grpcgate

import (
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/engine/reactor/http2"
	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/notify/session"
)

// SessionMethod is a streaming method of a further service whose streams are sessions. They speak a wire format of their own,
// which has only notifications and their acknowledgements; metadata takes the place of hello, and the end of the stream that
// of goodbye. On EngineReactor such a stream has no goroutine.
type SessionMethod struct {
	Hub    Hub
	Format frame.Format
	Name   string // the gateway's name in presence
	// Hello makes the hello of a client that opens a stream, and its claim, from its metadata. An error, which is a gRPC
	// status, ends the stream at once. It is called on a connection's loop.
	Hello func(md func(string) string) (*frame.Hello, access.Claim, error)
	// Goodbye returns the status with which a stream ends after this goodbye.
	Goodbye func(g frame.Goodbye) *status.Status
	// Welcomed is called once a stream with the time until its session was welcomed. It may be nil.
	Welcomed func(took time.Duration)
	// Ended is called once a stream with its duration and the reason of its session's goodbye; empty: the client went. It may
	// be nil.
	Ended func(took time.Duration, reason string)
	// Deaf ignores what clients send: their acknowledgements mean nothing.
	Deaf bool

	begun time.Time // the start from which times of its streams are counted
}

// RegisterSessions adds a service, before Serve. Of its methods, which run in a goroutine each, the streams that are named in
// sessions are sessions instead.
func (s *Server) RegisterSessions(desc *grpc.ServiceDesc, impl any, sessions map[string]*SessionMethod) {
	for _, m := range sessions {
		m.begun = time.Now()
	}
	s.engine.registerSessions(desc, impl, sessions)
	s.serving(desc.ServiceName)
}

// own reports whether this is godwit.v1.Client, where hellos are frames.
func (m *SessionMethod) own() bool { return m.Hello == nil }

// sends reports whether the method's streams have frames of a kind. Of a stream that was opened at begun, a welcome is noted.
func (m *SessionMethod) sends(k frame.ServerKind, begun time.Duration) bool {
	if k == frame.ServerWelcome && m.Welcomed != nil {
		m.Welcomed(time.Since(m.begun) - begun)
	}
	return m.own() || k == frame.ServerNotification
}

// ended reports the end of a stream that was opened at begun.
func (m *SessionMethod) ended(begun time.Duration, reason string) {
	if m.Ended != nil {
		m.Ended(time.Since(m.begun)-begun, reason)
	}
}

// guest is one stream of a further service: a client that speaks something else.
type guest struct {
	client
	m     *SessionMethod
	begun time.Duration // since the method was there
}

// States of a guest, in addition to those of a client.
const (
	guestTold    uint32 = 1 << (8 + iota) // its end was told
	guestLeaving                          // the client has ended its side
)

var (
	_ session.Transport = (*guest)(nil)
	_ session.Corker    = (*guest)(nil)
)

func openGuest(m *SessionMethod, s *http2.Stream, h *http2.Headers, gzip bool) http2.StreamHandler {
	hello, claim, err := m.Hello(h.Get)
	if err != nil {
		reply(s, statusOf(err))
		return nil
	}
	s.WriteRaw(answerHead, false) // sent at once: clients take it as the sign that they are connected
	g := &guest{client: client{s: s, gzip: gzip}, m: m, begun: time.Since(m.begun)}
	p := streamPeer(s, h.Get)
	p.Claim = claim
	g.session = m.Hub.Accept(g, p)
	g.session.Frame(&frame.Client{Kind: frame.KindHello, Hello: hello})
	return g
}

// Format is the method's.
func (g *guest) Format() frame.Format { return g.m.Format }

// Name is the transport's name in presence.
func (g *guest) Name() string { return g.m.Name }

// Write sends a notification as one message. The service has no messages for other frames.
func (g *guest) Write(k frame.ServerKind, head, tail []byte) bool {
	return !g.m.sends(k, g.begun) || g.client.Write(k, head, tail)
}

// Probe sends a PING on the connection: the service has no empty message.
func (g *guest) Probe() { g.s.Probe() }

// Close ends the call as its service does.
func (g *guest) Close(bye frame.Goodbye) {
	g.tell(bye.Reason) // before the client can know
	if g.finish() {
		g.s.WriteTrailers(statusFields(nil, g.m.Goodbye(bye))...)
	}
}

// tell reports the end of the stream, once.
func (g *guest) tell(reason string) {
	if g.state.Or(guestTold)&guestTold == 0 {
		g.m.ended(g.begun, reason)
	}
}

// Data takes bytes from the client.
func (g *guest) Data(b []byte) {
	if g.m.Deaf {
		g.session.Alive()
		return
	}
	g.data(b, g.m.Format)
}

// Resumed handles what was kept back.
func (g *guest) Resumed() {
	g.resumed(g.m.Format)
	g.leave()
}

// HalfClosed ends the session of a client that could acknowledge: it will not any more, so it has left.
func (g *guest) HalfClosed() {
	if !g.m.Deaf {
		g.state.Or(guestLeaving)
		g.leave()
	}
}

// leave ends the session of a client that has ended its side, once all that the client sent before is handled, so that a client whose
// token is refused learns of it.
func (g *guest) leave() {
	if st := g.state.Load(); st&guestLeaving != 0 && st&clientPaused == 0 && !g.backlog {
		g.session.Goodbye(frame.Goodbye{Reason: left})
	}
}

// left is the goodbye to a client that has ended its side.
const left = frame.Left

// Closed ends the session.
func (g *guest) Closed(err error) {
	g.client.Closed(err)
	g.tell("")
}
