package mailboxdb

import (
	"hash/maphash"
	"math/bits"
	"sync"
	"sync/atomic"

	"godwit.dev/godwit/internal/engine/stage"
	"godwit.dev/godwit/internal/notify/mailbox"
)

// tellers report commits to the observer at the same time, each for recipients of its own, on machines with cores for that. A recipient's copies
// go to one teller, which takes commits in their order: so the order of each recipient is that of the commits, and there is none between
// recipients. A teller that waits for the observer holds up
// its own recipients and the callers that named them, and after maxTellings parts everybody.
type tellers struct {
	store  *Store
	seed   maphash.Seed
	queues []chan telling // one for each teller; none: callers and the store's own goroutine report
	under  atomic.Int64   // parts that are queued or being reported
	wg     sync.WaitGroup
}

// telling is a part of a commit, which one teller reports.
type telling struct {
	of   *committed
	part int
	obs  mailbox.Observer
}

// part is what one teller reports of a commit.
type part struct {
	batch mailbox.Batch
	ops   []int // which wait for this part
}

// addressed is implemented by operations that change the mailboxes of these recipients alone. Others wait until all parts of their commit are reported.
type addressed interface {
	recipients(yield func(string) bool)
}

const (
	// fewTold is how many copies the goroutine that has committed reports itself, if no teller has anything to do: waking others takes longer.
	fewTold = 16

	maxTellings = 64 // parts in a teller's queue
	maxTellers  = 64 // as many as a mask has bits
)

// start starts n tellers; a single one would only be in the way.
func (t *tellers) start(s *Store, n int) {
	if n < 2 {
		return
	}
	t.store, t.seed, t.queues = s, maphash.MakeSeed(), make([]chan telling, min(n, maxTellers))
	for i := range t.queues {
		t.queues[i] = make(chan telling, maxTellings)
		t.wg.Go(func() {
			stage.Mark("teller", i)
			t.run(t.queues[i])
		})
	}
}

// close waits until everything is reported. No commits follow.
func (t *tellers) close() {
	for _, q := range t.queues {
		close(q)
	}
	t.wg.Wait()
}

func (t *tellers) run(queue chan telling) {
	for told := range queue {
		c, p := told.of, &told.of.parts[told.part]
		told.obs.Committed(&p.batch)
		t.under.Add(-1)
		for _, i := range p.ops {
			if c.waits[i].Add(-1) == 0 {
				c.ops[i].Done(nil)
			}
		}
		clearBatch(&p.batch)
		p.ops = p.ops[:0]
		if c.left.Add(-1) == 0 {
			c.empty()
			t.store.spare.Put(c)
		}
	}
}

// share leaves a commit to the tellers; false: the caller is to report it, and nobody else reports anything meanwhile. The caller holds
// Store.telling.
func (t *tellers) share(c *committed, obs mailbox.Observer) bool {
	if len(t.queues) == 0 || c.size() < fewTold && t.under.Load() == 0 {
		return false
	}
	if c.parts == nil {
		c.parts = make([]part, len(t.queues))
	}
	c.batch.Divide(func(recipient string) *mailbox.Batch { return &c.parts[t.of(recipient)].batch })
	var filled uint64
	for i := range c.parts {
		if c.parts[i].batch.Size() > 0 {
			filled |= 1 << i
		}
	}
	t.await(c, filled)
	parts := bits.OnesCount64(filled)
	c.left.Store(int32(parts)) // at most maxTellers
	t.under.Add(int64(parts))
	for ; filled != 0; filled &= filled - 1 {
		i := bits.TrailingZeros64(filled)
		t.queues[i] <- telling{c, i, obs}
	}
	return true
}

// await lets each operation of a commit wait for the parts that its recipients are in.
func (t *tellers) await(c *committed, filled uint64) {
	if cap(c.waits) < len(c.ops) {
		c.waits = make([]atomic.Int32, len(c.ops))
	}
	c.waits = c.waits[:len(c.ops)]
	for i, op := range c.ops {
		of := filled
		if a, ok := op.(addressed); ok {
			of = 0
			for recipient := range a.recipients {
				if of |= filled & (1 << t.of(recipient)); of == filled {
					break
				}
			}
		}
		if of == 0 {
			op.Done(nil)
			continue
		}
		c.waits[i].Store(int32(bits.OnesCount64(of))) // at most maxTellers
		for ; of != 0; of &= of - 1 {
			p := &c.parts[bits.TrailingZeros64(of)]
			p.ops = append(p.ops, i)
		}
	}
}

// of returns the teller that has a recipient.
func (t *tellers) of(recipient string) int {
	return int(maphash.String(t.seed, recipient) % uint64(len(t.queues))) // less than maxTellers
}
