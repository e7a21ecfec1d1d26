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

// SessionMethod is a streaming method of a further service, whose streams are sessions. They use a wire format of their own, which has only
// notifications and their acknowledgements; metadata replaces the hello, and the end of the stream replaces the goodbye. On EngineReactor
// such a stream has no goroutine.
type SessionMethod struct {
	Hub    Hub
	Format frame.Format
	Name   string // the gateway's name in presence
	// Hello makes the hello and the claim of a client that opens a stream, from its metadata. An error must be a gRPC status; it ends the
	// stream at once. Hello runs on a connection's loop.
	Hello func(md func(string) string) (*frame.Hello, access.Claim, error)
	// Goodbye returns the status with which a stream ends after this goodbye.
	Goodbye func(g frame.Goodbye) *status.Status
	// Welcomed is called once a stream, with the time until the welcome of its session. It may be nil.
	Welcomed func(took time.Duration)
	// Ended is called once a stream, with its duration and the reason of its session's goodbye; the reason is empty if the client left. It
	// may be nil.
	Ended func(took time.Duration, reason string)
	// Deaf ignores the client's messages: its acknowledgements have no effect.
	Deaf bool

	begun time.Time // start of the clock for the times at which its streams begin
}

// RegisterSessions adds a service. It must be called before Serve. The streams named in sessions are sessions; each call of another method
// runs in a goroutine.
func (s *Server) RegisterSessions(desc *grpc.ServiceDesc, impl any, sessions map[string]*SessionMethod) {
	for _, m := range sessions {
		m.begun = time.Now()
	}
	s.engine.registerSessions(desc, impl, sessions)
	s.serving(desc.ServiceName)
}

// own reports whether the service is godwit.v1.Client, whose hellos are frames.
func (m *SessionMethod) own() bool { return m.Hello == nil }

// sends reports whether the method's streams can carry frames of kind k. If k is a welcome, it reports the time since begun to Welcomed.
func (m *SessionMethod) sends(k frame.ServerKind, begun time.Duration) bool {
	if k == frame.ServerWelcome && m.Welcomed != nil {
		m.Welcomed(time.Since(m.begun) - begun)
	}
	return m.own() || k == frame.ServerNotification
}

// ended reports the end of a stream that was opened at begun to Ended.
func (m *SessionMethod) ended(begun time.Duration, reason string) {
	if m.Ended != nil {
		m.Ended(time.Since(m.begun)-begun, reason)
	}
}

// guest is one stream of a further service, whose client uses another wire format.
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
	s.WriteRaw(answerHead, false) // sent at once: clients take the headers as the sign that they are connected
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

// Close ends the call with the status that its service defines for the goodbye.
func (g *guest) Close(bye frame.Goodbye) {
	g.tell(bye.Reason) // before the client can know
	if g.finish() {
		g.s.WriteTrailers(statusFields(nil, g.m.Goodbye(bye))...)
	}
}

// tell reports the end of the stream, only once.
func (g *guest) tell(reason string) {
	if g.state.Or(guestTold)&guestTold == 0 {
		g.m.ended(g.begun, reason)
	}
}

// Data handles bytes from the client.
func (g *guest) Data(b []byte) {
	if g.m.Deaf {
		g.session.Alive()
		return
	}
	g.data(b, g.m.Format)
}

// Resumed handles the bytes that were stored.
func (g *guest) Resumed() {
	g.resumed(g.m.Format)
	g.leave()
}

// HalfClosed ends the session of a client that could acknowledge: after this it cannot, so it counts as gone.
func (g *guest) HalfClosed() {
	if !g.m.Deaf {
		g.state.Or(guestLeaving)
		g.leave()
	}
}

// leave ends the session of a client that has ended its side. It waits until everything that the client sent before is handled, so that a
// client with a refused token learns of the refusal.
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
