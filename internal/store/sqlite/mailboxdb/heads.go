package mailboxdb

import (
	"context"
	"fmt"

	"godwit.dev/godwit/internal/notify/mailbox"
)

// headsChunk is how many recipients are looked up before the lock on the index is released for a moment.
const headsChunk = 1024

// Heads implements mailbox.Reader. The index in memory suffices: a recipient that is not in it has nothing pending.
func (s *Store) Heads(ctx context.Context, of []mailbox.Address) ([]mailbox.Head, error) {
	heads := make([]mailbox.Head, len(of))
	now := s.now()
	for from := 0; from < len(of); from += headsChunk {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("look at the heads of mailboxes: %w", context.Cause(ctx))
		}
		to := min(len(of), from+headsChunk)
		s.mu.RLock()
		for i := from; i < to; i++ {
			if r := s.inMemory(of[i].App, of[i].Recipient); r != nil {
				heads[i] = mailbox.Head{LastSeq: r.shown, Waits: r.waits(now)}
			}
		}
		s.mu.RUnlock()
	}
	return heads, nil
}

// waits reports whether readers would get any copy.
func (r *recipient) waits(now int64) bool {
	for i := range r.list {
		if r.list[i].visible(now) {
			return true
		}
	}
	return false
}
