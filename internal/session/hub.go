// Package session runs live sessions: hello, window, acknowledgements, heartbeat and the registry of who is
// connected. It sees connections only as Transports and mailboxes only through the small interfaces it declares.
package session

import (
	"net/netip"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/frame"
)

// Peer is what a gateway knows of a client before its hello.
type Peer struct {
	Claim access.Claim // from the URL, headers, metadata or certificate; the hello adds to it
	Addr  netip.Addr
}

// Hub is the registry of this node's sessions.
type Hub struct{}

// Session is one live connection of a recipient.
type Session struct{}

// Accept makes a session on a new connection. The gateway then hands it every client frame; a gateway whose hello
// came in the request hands over a hello frame it made itself.
func (h *Hub) Accept(t Transport, p Peer) *Session { panic("wiring") }

// Frame handles one client frame. Frames of one session must come one at a time, in order.
func (s *Session) Frame(f *frame.Client) {}

// Bad answers a frame that could not be decoded with an error frame; the session goes on, up to a bound.
func (s *Session) Bad(e *frame.Error) {}

// Alive notes a sign of life that is not a frame: a pong, an HTTP/2 PING acknowledgement, a poll.
func (s *Session) Alive() {}

// Drained says that a transport which refused a write has room again.
func (s *Session) Drained() {}

// Closed says that the connection is gone. The session is over.
func (s *Session) Closed() {}

// ID is the session's secret identifier (128 random bits, 22 base64url characters), known once it was welcomed.
func (s *Session) ID() string { return "" }
