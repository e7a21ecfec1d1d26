package session

import (
	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/notify/frame"
)

// Join makes a session of a client that is verified already: a second mailbox that a gateway serves on the connection of the first. Its
// transport ends with that connection. The session uses no capabilities.
func (h *Hub) Join(t Transport, c access.Client, hello *frame.Hello) *Session {
	s := &Session{hub: h, t: t, alive: uint32(h.instant()), probedFor: never, state: verifying}
	s.timer.Owner = s
	plain := *hello
	plain.Fleeting, plain.Held = true, nil // nothing of it is stored
	s.admit(c, &plain)
	return s
}
