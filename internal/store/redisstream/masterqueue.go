package redisstream

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"godwit.dev/godwit/internal/engine/pause"
	"godwit.dev/godwit/internal/notify/mailbox"
)

// How reads are shared out.
const (
	readBatch   = 64   // streams read in one go
	readEntries = 64   // entries of one stream per read; further reads get the others
	readersMost = 4    // concurrent hinted reads of one master
	slowPerSec  = 5000 // streams of one master read per second without a hint
	retryEvery  = time.Second
)

// masterQueue is the work for one master, so that a master that hangs delays its own streams only. Its goroutines end
// when there is no work.
type masterQueue struct {
	s    *Store
	down atomic.Bool // the last request failed

	mu       sync.Mutex
	quick    []*stream // streams that have changed, by a hint
	slow     []*stream // streams to read when there is time
	leaving  []*departure
	spoiled  []*departure
	readers  int
	slowing  bool
	deleting bool
	setting  bool // aside
}

// queueOf returns the queue of a stream's master.
func (s *Store) queueOf(st *stream) *masterQueue {
	return s.queue(s.masterOf(st))
}

// masterOf returns the address of a stream's master; empty: there is none, or it is unknown.
func (s *Store) masterOf(st *stream) string {
	return s.finder.topology.Load().of(s.slot[st.shard])
}

func (s *Store) queue(master string) *masterQueue {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.queues[master]
	if l == nil {
		l = &masterQueue{s: s}
		s.queues[master] = l
	}
	return l
}

// hint schedules a prompt read of a key's stream if its client is online. A stream that was not read yet is left to its first session.
func (s *Store) hint(key string) {
	client, _, ok := ClientOf(key)
	if !ok {
		return
	}
	st := s.online(client)
	if st == nil {
		return
	}
	if st.key != key {
		if key == otherKey(client, s.cfg.MaxShards) {
			s.strays.look(client)
		}
		return
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	switch {
	case st.known:
		s.ask(st, true)
	case st.reads > 0: // Redis may have answered the first read before this change
		st.again = true
	}
}

// heard schedules a read of a client that a publisher has announced a new entry for.
func (s *Store) heard(client string) {
	s.hint(Key(client, s.cfg.MaxShards))
	s.strays.look(Recipient(client))
}

// missed schedules reads of all streams of a master.
func (s *Store) missed(master string) {
	var some []*stream
	for i := range s.buckets {
		some = s.buckets[i].all(some[:0])
		for _, st := range some {
			if s.masterOf(st) == master {
				s.look(st)
			} else {
				s.strays.look(st.client) // its other stream may be on this master
			}
		}
	}
}

// look schedules a read of a stream from its first entry on, when there is time.
func (s *Store) look(st *stream) {
	s.strays.look(st.client)
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.known || st.reread {
		st.whole = true
		s.ask(st, false)
	}
}

// ask queues a stream, whose lock the caller holds. At most one read of a stream is under way: requests during it cause one more read.
func (s *Store) ask(st *stream, quick bool) {
	switch {
	case st.sessions == 0 || st.full && !st.whole:
		return
	case st.asked:
		st.again = true
		return
	}
	st.asked = true
	l := s.queueOf(st)
	l.mu.Lock()
	defer l.mu.Unlock()
	if !quick || l.down.Load() {
		l.slow = append(l.slow, st)
		l.startSlow()
		return
	}
	l.quick = append(l.quick, st)
	if l.readers < readersMost && s.ctx.Err() == nil {
		l.readers++
		s.wg.Go(l.readQuick)
	}
}

func (l *masterQueue) startSlow() {
	if !l.slowing && l.s.ctx.Err() == nil {
		l.slowing = true
		l.s.wg.Go(l.readSlow)
	}
}

// readQuick reads streams with hints, batch after batch.
func (l *masterQueue) readQuick() {
	for {
		l.mu.Lock()
		batch := take(&l.quick, readBatch)
		if len(batch) == 0 {
			l.readers--
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
		l.s.read(l, batch)
	}
}

// readSlow reads streams at a limited rate, and retries those that could not be read every second.
func (l *masterQueue) readSlow() {
	for {
		l.mu.Lock()
		batch := take(&l.slow, readBatch)
		if len(batch) == 0 || l.s.ctx.Err() != nil {
			l.slowing = false
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
		wait := readBatch * time.Second / slowPerSec
		if !l.s.read(l, batch) {
			wait = retryEvery
		}
		pause.For(l.s.ctx, wait)
	}
}

// take removes up to n items from the front of a queue.
func take[T any](queue *[]T, n int) []T {
	n = min(n, len(*queue))
	batch := (*queue)[:n:n]
	if *queue = (*queue)[n:]; len(*queue) == 0 {
		*queue = nil
	}
	return batch
}

// read reads queued streams; ok is false if some could not be read, which are queued again.
func (s *Store) read(l *masterQueue, batch []*stream) (ok bool) {
	calls := make([]*call, len(batch))
	for i, st := range batch {
		calls[i] = s.begin(st)
	}
	s.carryOut(s.ctx, l, calls)
	var items []mailbox.Item
	var again []*stream
	for _, c := range calls {
		items = append(items, c.items...)
		if c.reread {
			again = append(again, c.st)
		}
	}
	if len(items) > 0 {
		s.route().Route(items)
	}
	for _, st := range again {
		s.route().Reread(s.cfg.App, st.client)
	}
	ok = true
	for _, c := range calls { // only now, so that entries found later are routed after those of this read
		ok = ok && c.err == nil
		s.finish(c)
	}
	return ok
}

// finish ends a read, and queues the stream again if that was requested or there are more entries.
func (s *Store) finish(c *call) {
	st := c.st
	st.mu.Lock()
	defer st.mu.Unlock()
	again := st.again || c.more
	st.asked, st.again = false, false
	switch {
	case c.err != nil:
		st.whole, st.reread = true, true
		s.ask(st, false)
	case again:
		s.ask(st, true)
	}
}

// call is one read of a stream under way.
type call struct {
	st     *stream
	from   EntryID
	whole  bool
	upTo   EntryID // newest entry known when the call began
	life   uint32
	items  []mailbox.Item
	bodies map[EntryID]mailbox.Item // the entries found, of any client; nil: no caller needs them
	more   bool                     // there are more entries after these
	reread bool
	err    error
}

// begin makes a call for a stream.
func (s *Store) begin(st *stream) *call {
	st.mu.Lock()
	defer st.mu.Unlock()
	c := &call{st: st, from: st.from(), whole: st.whole, upTo: st.last, life: st.life}
	st.reads++
	return c
}

// carryOut sends the calls and processes their results.
func (s *Store) carryOut(ctx context.Context, l *masterQueue, calls []*call) {
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	cmds := make([]rueidis.Completed, len(calls))
	for i, c := range calls {
		cmds[i] = s.link.rangeFrom(c.st.key, c.from, readEntries)
	}
	failed := len(calls) > 0
	for i, res := range s.link.main.DoMulti(ctx, cmds...) {
		list, err := entriesOf(res)
		failed = failed && err != nil
		s.took(calls[i], list, err)
	}
	if l.down.Swap(failed) != failed && ctx.Err() == nil {
		if failed {
			s.log.WarnContext(ctx, "streams of redis cannot be read, will try again", "error", calls[0].err)
		} else {
			s.log.InfoContext(ctx, "streams of redis can be read again")
		}
	}
}
