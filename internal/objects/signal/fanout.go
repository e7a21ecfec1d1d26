package signal

import (
	"context"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"godwit.dev/godwit/internal/engine/pause"
	"godwit.dev/godwit/internal/engine/stage"
	"godwit.dev/godwit/internal/objects/object"
	"godwit.dev/godwit/internal/objects/object/objectstore"
)

// Changed implements Observer. It runs on the store's goroutine, so it only records the changes: an object is queued once in its worker,
// however often it changes.
func (s *Service) Changed(batch []objectstore.Change) {
	s.counts.changes.Add(uint64(len(batch)))
	s.Heard(batch)
	if follow := s.follower.Load(); follow != nil {
		(*follow)(batch)
	}
	if tell := s.others.Load(); tell != nil {
		(*tell)(batch)
	}
}

// Heard handles changes that other nodes have made. Older or repeated changes have no effect.
func (s *Service) Heard(batch []objectstore.Change) {
	for i := range batch {
		ch := &batch[i]
		if w := s.index.find(name{ch.App, ch.Key}); w != nil && w.set(ch.State) {
			s.announce(w, true)
		}
	}
}

// Follow sets a function that is called with the changes made here, in the order of commits. It must neither wait nor keep the batch.
func (s *Service) Follow(follow func(batch []objectstore.Change)) { s.follower.Store(&follow) }

// TellOthers sets the function that sends changes made here to other nodes. tell is called in the order of commits; it must neither wait
// nor keep the batch.
func (s *Service) TellOthers(tell func(batch []objectstore.Change)) { s.others.Store(&tell) }

// Missed reports that changes of other nodes may have been lost, and that more may be lost in the next seconds. The store is read now,
// unless that was done in the last two seconds, and more often for a while.
func (s *Service) Missed() {
	select {
	case s.missed <- struct{}{}:
	default:
	}
}

// announce queues an object for fan-out. changed: it waits for the end of its group's fixed interval, if there is one.
func (s *Service) announce(w *watched, changed bool) {
	w.mu.Lock()
	first := !w.waiting && len(w.sessions) > 0
	w.waiting = w.waiting || first
	w.mu.Unlock()
	if !first && (changed || !w.held.Load()) {
		s.counts.coalesced.Add(1)
		return
	}
	ln := s.workers[int(w.id)%len(s.workers)]
	ready := time.Now()
	fixed := changed && s.cfg.Batch != nil && s.batch(w, &ready)
	if fixed {
		w.held.Store(true)
	}
	if d := s.pace.interval(w.app); d > 0 && !fixed {
		ready = ready.Add(d).Truncate(batchGrain).Add(batchGrain)
	}
	ln.mu.Lock()
	if fixed {
		ln.hold(waiting{w, ready})
	} else {
		ln.queue = append(ln.queue, waiting{w, ready})
	}
	sooner := ready.Before(ln.until)
	ln.mu.Unlock()
	if sooner {
		ln.notify()
	}
}

// fanoutWorker fans out objects one after the other. Changes of one object always go to the same worker, so they stay in order.
type fanoutWorker struct {
	mu       sync.Mutex
	queue    []waiting
	held     held
	until    time.Time // the worker checks its queue at this time at the latest
	wake     chan struct{}
	sessions []*liveSession // reused
}

// waiting is an object in a worker's queue.
type waiting struct {
	w     *watched
	ready time.Time // not to be sent before; zero: its fixed interval has ended
}

func (ln *fanoutWorker) notify() {
	select {
	case ln.wake <- struct{}{}:
	default:
	}
}

func (s *Service) startWorkers() {
	n := s.cfg.Workers
	if n == 0 {
		n = runtime.GOMAXPROCS(0)
	}
	for i := range n {
		ln := &fanoutWorker{wake: make(chan struct{}, 1), until: time.Now().Add(idleWorker)}
		s.workers = append(s.workers, ln)
		s.running.Go(func() {
			stage.Mark("objects' worker", i)
			s.runWorker(s.ctx, ln)
		})
	}
}

func (s *Service) runWorker(ctx context.Context, ln *fanoutWorker) {
	timer := time.NewTimer(idleWorker)
	defer timer.Stop()
	for {
		due, wait := ln.take(time.Now())
		for _, it := range due {
			if ctx.Err() != nil {
				return
			}
			if !it.ready.IsZero() {
				s.pace.judge(it.w.app, time.Since(it.ready))
			}
			s.fanOut(ln, it.w)
		}
		if len(due) > 0 {
			continue
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return
		case <-ln.wake:
		case <-timer.C:
		}
	}
}

// take removes the objects that are ready; wait is the time until the next one is ready.
func (ln *fanoutWorker) take(now time.Time) (due []waiting, wait time.Duration) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	wait = idleWorker
	keep := ln.queue[:0]
	for _, it := range ln.queue {
		if left := it.ready.Sub(now); left > 0 {
			keep = append(keep, it)
			wait = min(wait, left)
		} else {
			due = append(due, it)
		}
	}
	clear(ln.queue[len(keep):])
	ln.queue = keep
	if cap(keep) > keepListed && len(keep) == 0 {
		ln.queue = nil
	}
	due, wait = ln.release(now, due, wait)
	ln.until = now.Add(wait)
	return due, wait
}

// fanOut offers an object's state to every session that is registered for it.
func (s *Service) fanOut(ln *fanoutWorker, w *watched) {
	w.mu.Lock()
	w.waiting = false
	w.held.Store(false)
	ln.sessions = s.index.sessions.get(w.sessions, ln.sessions[:0])
	w.mu.Unlock()
	s.spread(w, ln.sessions)
	clear(ln.sessions)
	if cap(ln.sessions) > keepListed {
		ln.sessions = nil
	}
}

// spread offers the state to many sessions on several cores. It does not matter which of two states of one object reaches a session first:
// the session ignores an older one.
func (s *Service) spread(w *watched, sessions []*liveSession) {
	st, now := w.now.Load(), s.second()
	offer := func(part []*liveSession) {
		for _, l := range part {
			l.offered(w, st, now)
		}
	}
	parts := min(len(s.workers), len(sessions)/spreadFrom)
	if parts < 2 {
		offer(sessions)
		return
	}
	var wg sync.WaitGroup
	for part := range slices.Chunk(sessions[len(sessions)/parts:], (len(sessions)+parts-1)/parts) {
		wg.Go(func() { offer(part) })
	}
	offer(sessions[:len(sessions)/parts])
	wg.Wait()
}

const (
	idleWorker = time.Hour
	keepListed = 1 << 14 // most waiting objects, and sessions of an object, for which a worker keeps memory
	spreadFrom = 128     // number of sessions from which the use of a second core pays
)

// offered passes a state to one session.
func (l *liveSession) offered(w *watched, st *current, now second) {
	c := l.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.session != l {
		return
	}
	r := c.find(w.id)
	if r == nil || w.gone.Load() { // the registration has ended meanwhile, and the id may belong to another object by now
		return
	}
	if !c.offer(l, r, w, st, now) {
		c.behind = true
		return
	}
	if r.due != 0 {
		c.arm(r.due)
	}
}

// readObjects reads the states of objects that have just been watched for the first time.
func (s *Service) readObjects(batch []*watched) {
	slices.SortStableFunc(batch, func(a, b *watched) int { return strings.Compare(a.app, b.app) })
	for len(batch) > 0 {
		n := 1
		for n < len(batch) && batch[n].app == batch[0].app {
			n++
		}
		keys := make([]object.Key, n)
		for i, w := range batch[:n] {
			keys[i] = w.key
		}
		states, err := s.store.Get(s.ctx, batch[0].app, keys)
		if err != nil {
			if s.ctx.Err() != nil {
				return
			}
			s.log.Warn("reading objects failed, will try again", "objects", n, "error", err)
			s.readAgain(batch[:n])
		} else {
			for i, w := range batch[:n] {
				w.set(&states[i])
				s.announce(w, false) // a client that has just registered does not wait for an interval's end
			}
		}
		batch = batch[n:]
	}
}

// readAgain repeats a read after a while, unless the service ends.
func (s *Service) readAgain(batch []*watched) {
	batch = slices.Clone(batch)
	s.running.Go(func() {
		if pause.For(s.ctx, storeRetry) {
			for _, w := range batch {
				s.unread.add(w)
			}
		}
	})
}
