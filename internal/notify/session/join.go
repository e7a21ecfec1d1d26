package session

import (
	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/notify/frame"
)

// Second makes a second session for the connection of another one: a further mailbox that a gateway serves there. Join begins it.
func (h *Hub) Second(t Transport) *Session {
	s := &Session{hub: h, t: t, alive: uint32(h.instant()), probedFor: never, state: verifying}
	s.timer.Owner = s
	return s
}

// Join begins a session of Second for a client that is verified already. Its transport ends with that of the first session. It uses no
// capabilities.
func (s *Session) Join(c access.Client, hello *frame.Hello) {
	plain := *hello
	plain.Fleeting, plain.Unseen, plain.Held = true, true, nil // nothing of it is stored
	s.admit(c, &plain)
}
