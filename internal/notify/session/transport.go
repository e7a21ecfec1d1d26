package session

import (
	"godwit.dev/godwit/internal/notify/frame"
)

// Transport is one client connection as its gateway presents it to a session. All methods are safe for concurrent
// use and none blocks; none calls back into the session before it returns.
type Transport interface {
	// Format returns the encoding of frames to this client.
	Format() frame.Format
	// Write sends one encoded frame of a kind: head is borrowed until Write returns, tail (may be nil) is shared and
	// immutable.
	// False: the frame was not taken because the client does not drain or is gone; the gateway calls
	// Session.Drained once there is room again.
	Write(k frame.ServerKind, head, tail []byte) bool
	// Probe asks the peer for a sign of life (WebSocket or HTTP/2 PING, SSE comment). Answers reach Session.Alive.
	Probe()
	// Close ends the connection once all written bytes have been sent or the gateway's patience is over. The goodbye
	// frame has been written already; g determines the close code. Session.Closed follows.
	Close(g frame.Goodbye)
	// Pause stops reading the client's frames until Resume: called from within Session.Frame while a hello is verified.
	// Frames after the one being handled must not be handed over before Resume.
	Pause()
	Resume()
	// Name is the gateway's short name for metrics and presence: ws, grpc, sse, poll.
	Name() string
}

// Corker is a Transport that can send many small frames at once.
type Corker interface {
	// Cork collects written frames until Uncork, which must follow soon. Calls nest.
	Cork()
	// Uncork sends what has waited.
	Uncork()
}

// cork has what the session writes leave in one piece by uncork, where the transport can do that.
func (s *Session) cork() {
	if c, ok := s.t.(Corker); ok {
		c.Cork()
	}
}

func (s *Session) uncork() {
	if c, ok := s.t.(Corker); ok {
		c.Uncork()
	}
}
