package session

import (
	"context"
	"time"

	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/notify/mailbox"
)

// A hub answers immediately and completely about its own sessions, and never fails. Callers of Presence must not rely on that, since the
// answer may need the hubs of several nodes.
var _ mailbox.Presence = (*Hub)(nil)

// Online implements mailbox.Presence: it names the recipient's connected devices, observers excepted.
func (h *Hub) Online(_ context.Context, app, recipient string) ([]string, error) {
	return h.online(app, recipient), nil
}

func (h *Hub) online(app, recipient string) []string {
	var found [4]*Session
	var names []string
	for _, s := range h.reg.find(address{app, recipient}, found[:0]) {
		if !s.peek {
			names = append(names, s.name())
		}
	}
	return names
}

// Sessions lists the live sessions of each of these recipients. partial: some are missing because a node did not answer.
func (h *Hub) Sessions(_ context.Context, app string, recipients []string) (live [][]Info, partial bool, err error) {
	live = make([][]Info, len(recipients))
	var found [4]*Session
	for i, recipient := range recipients {
		for _, s := range h.reg.find(address{app, recipient}, found[:0]) {
			live[i] = append(live[i], s.info())
		}
	}
	return live, false, nil
}

// Disconnect ends all sessions of a recipient and returns how many there were. partial: some sessions may still be live.
func (h *Hub) Disconnect(_ context.Context, app, recipient, reason string) (n int, partial bool, err error) {
	sessions := h.reg.find(address{app, recipient}, nil)
	for _, s := range sessions {
		s.Goodbye(frame.Goodbye{Reason: reason})
	}
	n = len(sessions)
	for _, end := range h.away {
		n += end(app, recipient, reason)
	}
	return n, false, nil
}

// AlsoDisconnect makes Disconnect call end, on each node, for what a gateway keeps of clients that are away. end returns how many of these it ended. It
// must be called before the first session.
func (h *Hub) AlsoDisconnect(end func(app, recipient, reason string) int) {
	h.away = append(h.away, end)
}

// Newest returns the newest live session of a recipient that does not only observe; with a device, only that device's sessions count. Nil:
// there is none.
func (h *Hub) Newest(app, recipient, device string) *Session {
	var found [4]*Session
	var newest *Session
	var since time.Time
	for _, s := range h.reg.find(address{app, recipient}, found[:0]) { // newest first
		s.mu.Lock()
		fits := s.state == live && !s.peek && (device == "" || s.device == device)
		if at := s.since(); fits && (newest == nil || at.After(since)) {
			newest, since = s, at
		}
		s.mu.Unlock()
	}
	return newest
}
