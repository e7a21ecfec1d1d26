package mailboxdb

import (
	"context"
	"sync"
	"time"

	"godwit.dev/godwit/internal/notify/mailbox"
)

const (
	// countShare: counting pending copies may take one part in so many of the time.
	countShare = 100
	// countWithin bounds one count.
	countWithin = 5 * time.Second
)

// counts is the number of waiting copies: the last count, with this node's commits since.
type counts struct {
	mu                 sync.Mutex
	pending, scheduled int64
	next               time.Time // when to count again: other nodes commit too
}

// changed adds the changes of a commit.
func (c *counts) changed(did *outcome) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending += did.pending
	c.scheduled += did.scheduled
}

// Stats implements mailbox.Store.
func (s *Store) Stats() mailbox.Stats {
	st := mailbox.Stats{Commits: s.commits.Load(), Appends: s.appends.Load(), Full: s.full.Load()}
	for _, l := range s.lanes {
		st.Queued += l.queued()
	}
	st.Pending, st.Scheduled = s.countWaiting()
	return st
}

// countWaiting counts again if that takes little of the time; else it returns the last counts.
func (s *Store) countWaiting() (pending, scheduled int64) {
	c := &s.counts
	c.mu.Lock()
	due := !time.Now().Before(c.next)
	pending, scheduled = c.pending, c.scheduled
	c.mu.Unlock()
	if !due || s.closed() {
		return pending, scheduled
	}
	ctx, cancel := context.WithTimeout(context.Background(), countWithin)
	defer cancel()
	began := time.Now()
	err := s.db.Pool().QueryRow(ctx, "SELECT count(*) FILTER (WHERE seq > 0), count(*) FILTER (WHERE seq = 0) FROM pending").Scan(&pending, &scheduled)
	took := time.Since(began)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.pending, c.scheduled = pending, scheduled
	}
	if took > countCheap {
		c.next = time.Now().Add(countShare * took)
	}
	return c.pending, c.scheduled
}

// countCheap: a count that takes less than this is made whenever it is wanted.
const countCheap = 100 * time.Millisecond
