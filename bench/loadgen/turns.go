package loadgen

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"godwit.dev/godwit/bench/latency"
)

// turns publishes to recipients in turn by writers that block until a publish is answered. Each writer has its share of the recipients.
type turns struct {
	writers, recipients int
	latency             *latency.Histogram
	write               func(ctx context.Context, writer int, j job) error // publishes one message
}

// writerBacklog is the number of publishes that may wait for one writer. Further publishes count as unsent.
const writerBacklog = 100_000

// Run publishes rate messages a second for span, and waits for the answers.
func (p *turns) Run(ctx context.Context, rate float64, span time.Duration) (all Published, err error) {
	if rate <= 0 {
		return all, errors.New("such publishers need a rate")
	}
	var wg sync.WaitGroup
	sums, jobs := make([]Published, p.writers), make([]chan job, p.writers)
	for i := range p.writers {
		jobs[i] = make(chan job, writerBacklog)
		wg.Go(func() { p.work(ctx, i, jobs[i], &sums[i]) })
	}
	begun := Now()
	pace(ctx, begun, begun+int64(span), float64(time.Second)/rate, func(i int, due int64) {
		to := i % p.recipients
		all.Messages++
		select {
		case jobs[to%p.writers] <- job{due: due, to: to}:
		default:
			all.Unsent++
		}
	})
	for i := range jobs {
		close(jobs[i])
	}
	wg.Wait()
	for i := range sums {
		all.Requests += sums[i].Requests
		all.Accepted += sums[i].Accepted
		all.Refused += sums[i].Refused
		if all.Why == "" {
			all.Why = sums[i].Why
		}
	}
	all.Seconds, all.Latency = time.Duration(Now()-begun).Seconds(), p.latency.Take()
	if ctx.Err() != nil {
		return all, context.Cause(ctx)
	}
	if all.Accepted == 0 {
		return all, fmt.Errorf("publish: %s", all.Why)
	}
	return all, nil
}

func (p *turns) work(ctx context.Context, writer int, jobs <-chan job, sums *Published) {
	for j := range jobs {
		if ctx.Err() != nil {
			continue
		}
		err := p.write(ctx, writer, j)
		p.latency.Record(time.Duration(Now() - j.due))
		sums.Requests++
		if err != nil {
			sums.Refused++
			sums.Why = err.Error()
			continue
		}
		sums.Accepted++
	}
}
