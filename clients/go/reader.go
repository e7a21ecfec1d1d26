package godwit

import (
	"context"
	"sync/atomic"
	"time"
)

// reader reads a session's frames. While many requests come and their handlers are quick, it runs the handlers itself and writes their
// answers together: to wake goroutines for each would cost more than such a handler. Should a handler take longer after all, another
// goroutine reads on.
type reader struct {
	s         *session
	ctx, work context.Context // the connection's, and the handlers' of notifications
	cancel    context.CancelCauseFunc
	end       chan error // receives the reason when the connection has ended

	quick    batched       // nil: each request has a goroutine of its own
	busy     atomic.Uint64 // odd while the goroutine that reads runs a handler
	watching atomic.Bool   // watch runs

	// Only the goroutine that reads uses these.
	often bool      // many requests have come
	count int       // of requests since then
	since time.Time // when the count began
}

// batched is a connection that knows whether a whole batch of frames has been read.
type batched interface {
	// drained reports whether the next frame must be read from the network.
	drained() bool
	// beforeRead sets a function that is called before each read from the network.
	beforeRead(f func())
}

const (
	quickHandler = 10 * time.Microsecond // a handler that takes longer on average gets goroutines
	oftenCount   = 64                    // that many requests
	oftenTime    = 64 * time.Millisecond // in that time are many
	stallTime    = time.Millisecond      // a handler that takes one to two of these has the reader replaced
	mostIdle     = 16                    // stallTimes without a handler, after which watch ends
)

// read takes frames until the connection ends.
func (s *session) read(ctx, work context.Context, cancel context.CancelCauseFunc) error {
	r := &reader{s: s, ctx: ctx, work: work, cancel: cancel, end: make(chan error, 1), since: time.Now()}
	if r.quick, _ = s.c.(batched); r.quick != nil {
		r.quick.beforeRead(s.l.out.signalQuiet)
	}
	go r.run()
	return <-r.end
}

// run reads until the connection ends, or another goroutine reads on.
func (r *reader) run() {
	for {
		f, err := r.s.c.recv()
		if err != nil {
			r.end <- err
			return
		}
		r.s.note()
		if f.Request != nil {
			if !r.asked(f.Request) {
				return
			}
			continue
		}
		if err := r.s.handle(r.work, &f, r.cancel); err != nil {
			r.end <- err
			return
		}
	}
}

// asked has a request answered. False: another goroutine reads on.
func (r *reader) asked(q *Request) (mine bool) {
	l := r.s.l
	if !l.admit(q) {
		return true
	}
	if !r.inline() {
		go func() {
			defer l.answering.running.Done()
			if f := l.answer(r.ctx, q); f != nil {
				l.out.frame(f)
			}
		}()
		return true
	}
	turn := r.busy.Add(1)
	if !r.watching.Load() && r.watching.CompareAndSwap(false, true) {
		go r.watch()
	}
	returned := false
	defer func() {
		l.answering.running.Done()
		mine = r.busy.CompareAndSwap(turn, turn+1)
		switch {
		case !mine:
			l.out.signal()
		case !returned: // the handler has ended this goroutine (runtime.Goexit)
			go r.run()
		}
	}()
	if f := l.answer(r.ctx, q); f != nil {
		l.out.quietly(f)
	}
	if r.quick.drained() {
		r.flush()
	}
	returned = true
	return mine
}

// inline reports whether the reader runs the next handler itself.
func (r *reader) inline() bool {
	if r.quick == nil {
		return false
	}
	if r.count++; r.count >= oftenCount {
		now := time.Now()
		r.often = now.Sub(r.since) < oftenTime
		r.since, r.count = now, 0
	}
	return r.often && r.s.l.answering.took.Load() < int64(quickHandler)
}

// flush sends what waits.
func (r *reader) flush() {
	s := r.s
	s.sending.Lock()
	defer s.sending.Unlock()
	frames, _ := s.l.out.take(false)
	if len(frames) == 0 {
		return
	}
	if err := s.send(frames...); err != nil {
		r.cancel(err)
		s.c.abort()
	}
}

// watch has another goroutine read on when a handler keeps the reader. It ends with the connection, or when no handler has run for a while.
func (r *reader) watch() {
	tick := time.NewTicker(stallTime)
	defer tick.Stop()
	for {
		r.watchBusy(tick.C)
		r.watching.Store(false)
		// A handler that began before that has seen that there is a watch.
		if r.busy.Load()%2 == 0 || !r.watching.CompareAndSwap(false, true) {
			return
		}
	}
}

func (r *reader) watchBusy(tick <-chan time.Time) {
	idle := 0
	for last := r.busy.Load(); idle < mostIdle; {
		select {
		case <-tick:
		case <-r.ctx.Done():
			idle = mostIdle
		}
		now := r.busy.Load()
		switch {
		case now != last:
			last, idle = now, 0
		case now%2 == 0:
			idle++
		case r.busy.CompareAndSwap(now, now+1):
			r.s.l.answering.note(stallTime)
			go r.run()
		}
	}
}
