package mailboxdb

import (
	"sync/atomic"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

// committed is a commit not yet reported to the observer.
type committed struct {
	batch mailbox.Batch
	ops   []sqlitedb.Op

	// Where tellers report it:
	parts []part
	left  atomic.Int32   // parts not yet reported
	waits []atomic.Int32 // by operation: parts that it waits for
}

// size returns how many copies and inboxes the batch names.
func (c *committed) size() int { return c.batch.Size() }

// add appends a later commit.
func (c *committed) add(d *committed) {
	b := &c.batch
	b.Stored = append(b.Stored, d.batch.Stored...)
	b.Due = append(b.Due, d.batch.Due...)
	b.Settled = append(b.Settled, d.batch.Settled...)
	b.Inboxes = append(b.Inboxes, d.batch.Inboxes...)
	c.ops = append(c.ops, d.ops...)
}

// empty clears the batch and keeps its memory for the next.
func (c *committed) empty() {
	clearBatch(&c.batch)
	clear(c.ops)
	c.ops = c.ops[:0]
}

func clearBatch(b *mailbox.Batch) {
	clear(b.Stored)
	clear(b.Due)
	clear(b.Settled)
	clear(b.Inboxes)
	*b = mailbox.Batch{Stored: b.Stored[:0], Due: b.Due[:0], Settled: b.Settled[:0], Inboxes: b.Inboxes[:0]}
}

// done releases the callers that wait for the commit, and keeps its memory for a later one.
func (s *Store) done(c *committed) {
	for _, op := range c.ops {
		op.Done(nil)
	}
	c.empty()
	s.spare.Put(c)
}

// A batch for the observer gets no further commits once it names maxTold copies.
const maxTold = 8192

// tell reports commits to the observer, in order, until the store closes.
func (s *Store) tell() {
	for open := true; open; {
		select {
		case <-s.wakes:
		case <-s.closing:
			open = false
		}
		s.telling.Lock()
		for s.tellNext() {
		}
		s.telling.Unlock()
	}
	s.tellers.close()
}

func (s *Store) wakeTeller() {
	select {
	case s.wakes <- struct{}{}:
	default:
	}
}

// tellHere reports to the observer on the goroutine of a caller that has committed. If another goroutine is reporting, tellHere leaves the
// commit to it.
func (s *Store) tellHere() {
	defer sqlitedb.EndOnPanic()
	if !s.telling.TryLock() {
		s.wakeTeller() // the other goroutine may not have seen the last commit
		return
	}
	s.tellNext() // each commit has a caller that reports the next one or has woken the teller, so none is missed
	s.telling.Unlock()
}

// tellNext reports the next commit to the observer, or leaves it to the tellers, and then releases the callers that wait for it; false: there is none. Several waiting
// commits are reported in one batch, so that a recipient with several copies in them gets these together. The caller holds s.telling.
func (s *Store) tellNext() bool {
	var c *committed
	select {
	case c = <-s.untold:
	default:
		return false
	}
	s.gather(c)
	obs := s.obs.Load()
	switch {
	case obs == nil || c.size() == 0:
		s.done(c)
	case s.tellers.share(c, *obs):
	default:
		(*obs).Committed(&c.batch)
		s.done(c)
	}
	return true
}

// gather adds the commits waiting behind c to c.
func (s *Store) gather(c *committed) {
	for c.size() < maxTold {
		select {
		case d := <-s.untold:
			c.add(d)
			d.empty()
			s.spare.Put(d)
		default:
			return
		}
	}
}
