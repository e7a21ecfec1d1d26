package mailboxdb

import (
	"context"
	"sync"
	"time"

	"godwit.dev/godwit/internal/notify/mailbox"
)

const (
	// countShare limits counting pending copies to one part in countShare of the time.
	countShare = 100
	// countWithin bounds one count.
	countWithin = 5 * time.Second
)

// counts is the number of waiting copies: the last count, with this node's commits since.
type counts struct {
	mu                 sync.Mutex
	pending, scheduled int64
	next               time.Time // time of the next count: other nodes' commits are not included until then
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
	st := mailbox.Stats{Commits: s.commits.Load(), Appends: s.appends.Load(), Full: s.full.Load(), Queued: s.queued()}
	st.Pending, st.Scheduled = s.countWaiting()
	return st
}

// Work returns how many commits this node has made since its start, how many copies they stored, and how many operations wait for one.
func (s *Store) Work() (commits, copies uint64, queued int) {
	return s.commits.Load(), s.appends.Load(), s.queued()
}

func (s *Store) queued() (n int) {
	for _, l := range s.lanes {
		n += l.queued()
	}
	return n
}

// countWaiting counts pending and scheduled copies again if the time share for counting allows it. Otherwise it returns the last counts.
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

// A count that takes less than countCheap is repeated at every request.
const countCheap = 100 * time.Millisecond
