package session

import (
	"context"
	"sync"

	"godwit.dev/godwit/internal/engine/shrink"
	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/notify/inbox"
	"godwit.dev/godwit/internal/notify/notification"
)

// Inboxes reads the counts of inboxes, for welcomes.
type Inboxes interface {
	InboxesUsed() bool
	InboxCounts(ctx context.Context, app, recipient string) (inbox.Counts, error)
	// CountInboxes reads the counts of several inboxes, in their order.
	CountInboxes(ctx context.Context, of []inbox.Owner) ([]inbox.Counts, error)
}

// inboxNews has the newest change of an inbox for each part of the recipients' hashes. Older counts that arrive after it are dropped.
type inboxNews [1024]inboxSlot

type inboxSlot struct {
	mu       sync.Mutex // held while sessions are told, so that they get changes in order
	changes  uint32
	hash     uint64 // of the recipient that changed last
	revision uint64 // of its inbox
}

func (h *Hub) inboxSlotOf(app, recipient string) (slot *inboxSlot, hash uint64) {
	_, hash = h.reg.shard(address{app, recipient})
	return &h.inboxNews[hash%uint64(len(h.inboxNews))], hash
}

// Hold implements mailbox.Router.
func (h *Hub) Hold(changed []inbox.Change) (release func()) {
	var held []*Session
	for i := range changed {
		held = h.reg.find(address{changed[i].App, changed[i].Recipient}, held)
	}
	for _, s := range held {
		s.cork()
	}
	return func() {
		for _, s := range held {
			s.uncork()
		}
	}
}

// Inboxes implements mailbox.Router: all sessions of a recipient get the new counts of its inbox. Changes of several nodes may arrive in
// any order: the newest one counts.
func (h *Hub) Inboxes(changed []inbox.Change) {
	for i := range changed {
		h.inboxChanged(&changed[i])
	}
}

func (h *Hub) inboxChanged(c *inbox.Change) {
	slot, hash := h.inboxSlotOf(c.App, c.Recipient)
	slot.mu.Lock()
	defer slot.mu.Unlock()
	slot.changes++
	if c.Revision != 0 {
		if slot.hash == hash && slot.revision > c.Revision {
			return
		}
		slot.hash, slot.revision = hash, c.Revision
	}
	var found [4]*Session
	for _, s := range h.reg.find(address{c.App, c.Recipient}, found[:0]) {
		s.tellInbox(&frame.Inbox{Unseen: c.Unseen, Unread: c.Unread, Changed: c.Changed, More: c.More, Marked: c.Marked})
	}
}

// TellInbox tells the session the counts of its inbox now, if that has or had items. It reads the store.
func (s *Session) TellInbox() {
	if s.hub.cfg.Inboxes == nil {
		return
	}
	w := s.hub.inboxAtHello(s.app, s.recipient)
	if in := w.frame(); in != nil {
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

// tellCounts tells a session counts that were read after it was registered, unless a newer change was told meanwhile.
func (s *Session) tellCounts(counts *inbox.Counts) {
	slot, hash := s.hub.inboxSlotOf(s.app, s.recipient)
	slot.mu.Lock()
	defer slot.mu.Unlock()
	if slot.hash != hash || slot.revision <= counts.Revision {
		s.tellInbox(&frame.Inbox{Unseen: counts.Unseen, Unread: counts.Unread, More: true})
	}
}

// inboxWelcome is what a welcome tells of an inbox.
type inboxWelcome struct {
	counts  inbox.Counts
	changes uint32 // of its slot, before the counts were read
}

// frame returns the counts; nil: the recipient has no inbox, or it could not be read.
func (w *inboxWelcome) frame() *frame.Inbox {
	if w.counts.Revision == 0 {
		return nil
	}
	return &frame.Inbox{Unseen: w.counts.Unseen, Unread: w.counts.Unread}
}

// inboxAtHello reads the counts for a welcome.
func (h *Hub) inboxAtHello(app, recipient string) (w inboxWelcome) {
	if h.cfg.Inboxes == nil {
		return w
	}
	slot, _ := h.inboxSlotOf(app, recipient)
	slot.mu.Lock()
	w.changes = slot.changes
	slot.mu.Unlock()
	if !h.cfg.Inboxes.InboxesUsed() {
		return w
	}
	if counts, err := h.cfg.Inboxes.InboxCounts(h.ctx, app, recipient); err == nil {
		w.counts = counts
	}
	return w
}

// inboxAfterHello tells a session the counts again if they may have changed here before it was registered.
func (s *Session) inboxAfterHello(w *inboxWelcome) {
	h := s.hub
	if h.cfg.Inboxes == nil {
		return
	}
	slot, _ := h.inboxSlotOf(s.app, s.recipient)
	slot.mu.Lock()
	changed := slot.changes != w.changes
	slot.mu.Unlock()
	if !changed || !h.cfg.Inboxes.InboxesUsed() {
		return
	}
	if counts, err := h.cfg.Inboxes.InboxCounts(h.ctx, s.app, s.recipient); err == nil && counts.Revision != w.counts.Revision {
		s.tellCounts(&counts)
	}
}

// Other nodes learn of a new session some moments later, and changes of its inbox that they make before that do not reach it. So the counts are
// read again when the session first compares itself with the store, and once more some seconds later; also when messages of other nodes may
// have been lost.

// anyRevision stands for not knowing what a session was told.
const anyRevision = ^uint64(0)

// recounts are the sessions whose counts will be compared with the store, each with the revision it was told.
type recounts struct {
	mu   sync.Mutex
	of   shrink.Map[*Session, uint64]
	used bool // inboxes were in use at the last look
}

func (r *recounts) add(s *Session, told uint64) {
	r.mu.Lock()
	r.of.Set(s, told)
	r.mu.Unlock()
}

func (r *recounts) drop(s *Session) {
	r.mu.Lock()
	if r.of.Len() > 0 {
		r.of.Delete(s)
	}
	r.mu.Unlock()
}

// told returns what a session was told, if it waits.
func (r *recounts) told(s *Session) (revision uint64, waits bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	revision, waits = r.of.All()[s]
	return revision, waits
}

// compared notes what a session, if it still waits, has in the store; done: it need not be compared again.
func (r *recounts) compared(s *Session, revision uint64, done bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch _, waits := r.of.All()[s]; {
	case !waits: // it has ended
	case done:
		r.of.Delete(s)
	default:
		r.of.Set(s, revision)
	}
}

// recountLater has a session's counts compared with the store at its next comparison.
func (s *Session) recountLater(told uint64) {
	if h := s.hub; h.several && h.cfg.Inboxes != nil && h.cfg.Inboxes.InboxesUsed() {
		h.recounts.add(s, told)
	}
}

// lookForInboxes has all sessions recounted once this node learns that inboxes are in use: another node has kept the first item.
func (h *Hub) lookForInboxes() {
	if !h.several || h.cfg.Inboxes == nil || !h.cfg.Inboxes.InboxesUsed() {
		return
	}
	h.recounts.mu.Lock()
	first := !h.recounts.used
	h.recounts.used = true
	h.recounts.mu.Unlock()
	if !first {
		return
	}
	var some []*Session
	for i := range h.reg.shards {
		some = h.reg.shards[i].sessions(some[:0])
		for _, s := range some {
			s.mu.Lock()
			if s.state == live {
				h.recounts.add(s, 0)
			}
			s.mu.Unlock()
		}
	}
}

// recount compares the counts of sessions with the store, and tells those that differ. All are of one app.
func (h *Hub) recount(list []*Session) {
	if len(list) == 0 {
		return
	}
	of := make([]inbox.Owner, len(list))
	for i, s := range list {
		of[i] = inbox.Owner{App: s.app, Recipient: s.recipient}
	}
	counts, err := h.cfg.Inboxes.CountInboxes(h.ctx, of)
	if err != nil {
		return // they wait for their next comparison
	}
	now := h.instant()
	for i, s := range list {
		told, waits := h.recounts.told(s)
		if !waits { // it has ended
			continue
		}
		if c := &counts[i]; c.Revision != 0 && c.Revision != told {
			s.tellCounts(c)
		}
		h.recounts.compared(s, counts[i].Revision, now >= s.connected+ticks(rereadNext))
	}
}
