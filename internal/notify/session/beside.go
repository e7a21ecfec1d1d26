package session

import (
	"sync"
	"sync/atomic"

	"godwit.dev/godwit/internal/notify/mailbox"
)

// A session that is behind gets its next notifications from the store. One node of several may lose its connection to the store while the
// others still store notifications and the bus still carries them. Then the session gets the notification with the next seq at once.
// Notifications beyond a gap wait for a read, which keeps the order of seqs.

// maxKept limits the notifications that are kept for sessions while the store is being read for them. A later read finds the others.
const maxKept = 16_384

// kept holds notifications that were routed to sessions during a store read. If the read fails they are delivered; otherwise the read has
// found them.
type kept struct {
	n  atomic.Int64
	mu sync.Mutex
	of map[*Session][]mailbox.Item
}

func (k *kept) add(s *Session, it *mailbox.Item) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.n.Load() >= maxKept {
		return
	}
	if k.of == nil {
		k.of = make(map[*Session][]mailbox.Item)
	}
	k.of[s] = append(k.of[s], *it)
	k.n.Add(1)
}

// take removes and returns the notifications kept for a session.
func (k *kept) take(s *Session) []mailbox.Item {
	if k.n.Load() == 0 {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	items := k.of[s]
	delete(k.of, s)
	k.n.Add(-int64(len(items)))
	return items
}

// beside handles a routed item for a session that is behind: during a read it keeps the item, and after a failed read it delivers it at
// once.
func (s *Session) beside(it *mailbox.Item, sc *scratch) {
	h := s.hub
	switch {
	case !h.several: // this node is the only one, so the next read finds all notifications
	case s.queued:
		h.kept.add(s, it)
	case h.blind.Load():
		s.deliverBeside(it, sc)
	}
}

// deliverBeside delivers an item without a read if it is the session's next. The session stays behind, so the next read finds missing
// items.
func (s *Session) deliverBeside(it *mailbox.Item, sc *scratch) {
	if it.Seq == s.last+1 && !s.has(it) && s.deliver(it, sc) {
		s.last = it.Seq
	}
}
