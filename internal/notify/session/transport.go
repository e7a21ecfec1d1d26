package session

import (
	"context"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/notify/frame"
)

// Transport is the interface of a client connection, as provided by its gateway, to a session. All methods are safe for concurrent use and
// none blocks; none calls back into the session before it returns.
type Transport interface {
	// Format returns the encoding of frames to this client.
	Format() frame.Format
	// Write sends one encoded frame of a kind: head is borrowed until Write returns, tail (may be nil) is shared and
	// immutable.
	// False: the frame was not taken because the client does not drain or is gone; the gateway calls
	// Session.Drained once there is room again.
	Write(k frame.ServerKind, head, tail []byte) bool
	// Probe requests a sign of life from the peer (WebSocket or HTTP/2 PING, SSE comment). Answers reach Session.Alive.
	Probe()
	// Close ends the connection after all written bytes were sent, or after the gateway's time limit. The goodbye frame has been written
	// already; g determines the close code. Session.Closed follows.
	Close(g frame.Goodbye)
	// Pause stops the reading of the client's frames until Resume. It is called from within Session.Frame while a hello is verified. The
	// gateway must not pass frames after the current one before Resume.
	Pause()
	// Resume is called without the session locked: the gateway may pass frames of its own before it reads on.
	Resume()
	// Name is the gateway's short name for metrics and presence: ws, grpc, sse, poll.
	Name() string
}

// Knower is a Transport that has to know its client before the welcome: what its credential allows beyond a session.
type Knower interface {
	// Verified is called without the session locked, while reading is paused. The transport calls done once, then or later; an error refuses the
	// client.
	Verified(who access.Client, done func(error))
}

// Voucher is a Transport that vouches for its client itself: no app has a credential for such a client.
type Voucher interface {
	// Vouch identifies the client. It is called without the session locked, while reading is paused, and may read a store.
	Vouch(ctx context.Context) (access.Client, error)
}

// Corker is a Transport that can send many small frames at once.
type Corker interface {
	// Cork collects written frames until Uncork, which must follow soon. Calls nest.
	Cork()
	// Uncork sends what has waited.
	Uncork()
}

// cork collects the frames that the session writes until uncork, and then sends them in one piece, if the transport can do that.
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
