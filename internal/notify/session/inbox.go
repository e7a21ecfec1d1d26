package session

import (
	"context"
	"sync/atomic"

	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/notify/inbox"
	"godwit.dev/godwit/internal/notify/notification"
)

// Inboxes reads the counts of inboxes, for welcomes.
type Inboxes interface {
	InboxesUsed() bool
	InboxCounts(ctx context.Context, app, recipient string) (inbox.Counts, error)
}

// inboxNews counts the changes of inboxes that were told here, by a part of the recipient's hash. A hello reads counts before its session is
// registered, and reads them again if a change may have passed in between.
type inboxNews [256]atomic.Uint32

func (h *Hub) inboxNewsOf(app, recipient string) *atomic.Uint32 {
	_, hash := h.reg.shard(address{app, recipient})
	return &h.inboxNews[hash%uint64(len(h.inboxNews))]
}

// Inboxes implements mailbox.Router: all sessions of a recipient get the new counts of its inbox.
func (h *Hub) Inboxes(changed []inbox.Change) {
	var found [4]*Session
	for i := range changed {
		c := &changed[i]
		h.inboxNewsOf(c.App, c.Recipient).Add(1)
		for _, s := range h.reg.find(address{c.App, c.Recipient}, found[:0]) {
			s.tellInbox(&frame.Inbox{Unseen: c.Unseen, Unread: c.Unread, Changed: c.Changed, More: c.More, Marked: c.Marked})
		}
	}
}

// TellInbox tells the session the counts of its inbox now, if that has or had items. It reads the store.
func (s *Session) TellInbox() {
	if s.hub.cfg.Inboxes == nil {
		return
	}
	if in, _ := s.hub.inboxAtHello(s.app, s.recipient); in != nil {
		s.tellInbox(in)
	}
}

// TellAnswers calls f for each reply that chose an action of a notification. f must not wait.
func (h *Hub) TellAnswers(f func(app, recipient, id, action string)) { h.answers.Store(&f) }

// chose tells of a reply that chose an action of a notification.
func (s *Session) chose(id string, r *notification.Reply) {
	if f := s.hub.answers.Load(); f != nil {
		if action := r.Action(); action != "" {
			(*f)(s.app, s.recipient, id, action)
		}
	}
}

func (s *Session) tellInbox(in *frame.Inbox) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == live {
		s.write(frame.ServerInbox, frame.AppendInbox(nil, s.t.Format(), in))
	}
}

// inboxAtHello returns the counts for a welcome, and what they depend on; nil: the recipient has no inbox, or it cannot be read now.
func (h *Hub) inboxAtHello(app, recipient string) (in *frame.Inbox, news uint32) {
	if h.cfg.Inboxes == nil {
		return nil, 0
	}
	news = h.inboxNewsOf(app, recipient).Load()
	if !h.cfg.Inboxes.InboxesUsed() {
		return nil, news
	}
	counts, err := h.cfg.Inboxes.InboxCounts(h.ctx, app, recipient)
	if err != nil || counts.Revision == 0 {
		return nil, news
	}
	return &frame.Inbox{Unseen: counts.Unseen, Unread: counts.Unread}, news
}

// inboxAfterHello tells a session the counts again if they may have changed before it was registered. In a cluster other nodes learn of the
// session some moments later, so it is told them then as well.
func (s *Session) inboxAfterHello(news uint32) {
	h := s.hub
	if h.cfg.Inboxes == nil || h.inboxNewsOf(s.app, s.recipient).Load() == news {
		return
	}
	if in, _ := h.inboxAtHello(s.app, s.recipient); in != nil {
		s.tellInbox(in)
	}
}
