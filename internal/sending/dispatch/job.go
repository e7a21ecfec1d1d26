package dispatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"godwit.dev/godwit/internal/engine/pause"
)

// Job is the sending of a backlog, from the start or resumption of its work to its end or the next stop.
type Job struct {
	d       *Dispatcher
	work    Work
	log     *slog.Logger
	rate    *rate           // the work's own rate; nil: it has none
	hard    context.Context // context of requests under way; set by Run
	senders []*channelSender
	results chan landed
}

// landed is a result on its way to the backlog. Its place in flight becomes free when it is stored.
type landed struct {
	Result
	of *channelSender
}

const (
	// resultQueue is how many requests can end while a batch of outcomes is being committed.
	resultQueue = 1024
	// resultBatch is the most outcomes in one call of Finish.
	resultBatch = 500
	// retryAfterFault is the wait before outcomes are stored again after a failure.
	retryAfterFault = time.Second
)

// Job makes a job for work. It sends nothing before Run. It fails if a channel has no policy.
func (d *Dispatcher) Job(w Work) (*Job, error) {
	if err := check(w.Channels); err != nil {
		return nil, err
	}
	j := &Job{d: d, work: w, log: w.Log, results: make(chan landed, resultQueue)}
	if j.log == nil {
		j.log = d.log
	}
	if w.Rate > 0 {
		j.rate = newRate(w.Rate, d.now())
	}
	for _, ch := range w.Channels {
		j.senders = append(j.senders, newChannelSender(j, ch))
	}
	return j, nil
}

// Kick makes the job read its backlog at once, because deliveries were added.
func (j *Job) Kick() {
	for _, l := range j.senders {
		l.kick()
	}
}

// Refusal is the provider's reason for the first channel whose deliveries are held; empty: none are held.
func (j *Job) Refusal() string {
	for _, l := range j.senders {
		if why := l.refusal.Load(); why != nil {
			return *why
		}
	}
	return ""
}

// Run sends until its backlog has ended and all its deliveries are sent, or ctx ends. Requests under way continue after the end of ctx and
// are cut off when hard ends. When it returns, no request of the job is under way and every outcome is stored, unless the error says
// otherwise. A *ChannelError means that a channel cannot send at all. Run must be called once.
func (j *Job) Run(ctx, hard context.Context) error {
	j.hard = hard
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var writing sync.WaitGroup
	var written error
	writing.Go(func() {
		if written = j.write(); written != nil {
			stop()
		}
	})
	g, gctx := errgroup.WithContext(ctx)
	for _, l := range j.senders {
		g.Go(func() error { return l.run(gctx) })
	}
	err := g.Wait()
	for _, l := range j.senders {
		close(l.attempts)
		l.workers.Wait()
	}
	close(j.results)
	writing.Wait()
	return errors.Join(written, err)
}

// write stores outcomes as they arrive: those that arrived during one commit are the next batch.
func (j *Job) write() error {
	var failed error
	batch := make([]landed, 0, resultBatch)
	for first := range j.results {
		runtime.Gosched() // other requests that have ended run first, and share the commit
		batch = append(batch[:0], first)
	fill:
		for len(batch) < resultBatch {
			select {
			case l, ok := <-j.results:
				if !ok {
					break fill
				}
				batch = append(batch, l)
			default:
				break fill
			}
		}
		if failed == nil {
			failed = j.commit(batch)
		}
		for _, l := range batch {
			<-l.of.inFlight
			l.of.kick()
		}
	}
	return failed
}

// commit stores outcomes. It tries as long as the process lives: without them, sent deliveries would count as unknown.
func (j *Job) commit(batch []landed) error {
	results := make([]Result, len(batch))
	for i, l := range batch {
		results[i] = l.Result
	}
	j.d.metrics.count(results)
	for {
		err := j.work.Backlog.Finish(context.WithoutCancel(j.hard), results, j.d.now())
		switch {
		case err == nil:
			return nil
		case errors.Is(err, ErrStale) || j.hard.Err() != nil:
			return fmt.Errorf("write outcomes: %w", err)
		}
		j.log.WarnContext(j.hard, "outcomes cannot be written yet", "error", err)
		pause.For(j.hard, retryAfterFault)
	}
}
