package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	"godwit.dev/godwit/bench/meter"
	"godwit.dev/godwit/bench/report"
	"godwit.dev/godwit/bench/worker"
)

// footprint measures the server's memory without clients, and per idle client.
func (s *Nammayatri) footprint(ctx context.Context, r *report.Result) error {
	const group = "memory"
	x, err := s.start(ctx, 1)
	if err != nil {
		return err
	}
	defer x.close()
	idle := Idle{Common: s.Common}
	pid := x.Servers[0].PID
	base, _, err := idle.settled(ctx, pid, settleBefore, 0, group)
	if err != nil {
		return err
	}
	// Memory that the server allocates once for all clients is not counted as theirs.
	if _, err := s.connect(ctx, x, prefix(), warmSessions); err != nil {
		return err
	}
	x.StopWorkers()
	before, _, err := idle.settled(ctx, pid, settleBefore, 0, group)
	if err != nil {
		return err
	}
	w := meter.Start([]int{pid}, sampling)
	opened, err := s.connect(ctx, x, prefix(), s.Idle)
	if err != nil {
		w.Stop()
		return err
	}
	after, _, err := idle.settled(ctx, pid, s.Settle, 0, group)
	samples := w.Stop()
	if err != nil {
		return err
	}
	r.Add(group, "server without clients", "MB", float64(base)/mb)
	r.Add(group, "server with idle clients", "MB", float64(after)/mb)
	r.Add(group, "an idle client", "B", float64(after-before)/float64(s.Idle))
	r.Add(group, "server while they connect, most", "MB", float64(meter.Peak(samples))/mb)
	r.Add(group, "connected in", "s", opened)
	return nil
}

// few is the number of idle clients in the smaller case, and of active clients in both.
const few = 100

// cost compares the CPU time of a publish in Redis between few and many idle clients. It measures in pairs and alternates which case comes
// first.
func (s *Nammayatri) cost(ctx context.Context, r *report.Result) error {
	for pair := range s.Pairs {
		var each [2]float64
		for turn := range 2 {
			many := (turn+pair)%2 == 1
			group, idle, at := "beside few idle clients", few, 0
			if many {
				group, idle, at = "beside many idle clients", s.Idle, 1
			}
			s.Testbed.Say("pair %d: %d idle clients", pair+1, idle)
			micros, err := s.costBeside(ctx, r, group, idle)
			if err != nil {
				return err
			}
			each[at] = micros
		}
		r.Add("many to few", "Redis CPU a publish", "×", each[1]/each[0])
	}
	return nil
}

func (s *Nammayatri) costBeside(ctx context.Context, r *report.Result, group string, idle int) (micros float64, err error) {
	x, err := s.start(ctx, 1)
	if err != nil {
		return 0, err
	}
	defer x.close()
	if _, err := s.connect(ctx, x, prefix(), idle); err != nil {
		return 0, err
	}
	p := prefix()
	if _, err := s.connect(ctx, x, p, few); err != nil {
		return 0, err
	}
	pub, err := s.publisher(ctx, x, p, few, false)
	if err != nil {
		return 0, err
	}
	defer pub.Stop()
	if _, _, err := s.load(ctx, x, pub, s.Rates[0], warmUp); err != nil {
		return 0, err
	}
	o, redis, err := s.load(ctx, x, pub, s.Rates[0], s.CostFor)
	if err != nil {
		return 0, err
	}
	micros = redis.Seconds() * 1e6 / float64(o.Published.Accepted)
	r.Add(group, "Redis CPU a publish", "µs", micros)
	lost, _ := arrived(o.Published.Messages, o.Counts.Received)
	r.Add(group, "entries lost", "", float64(lost))
	if n := len(o.Server); n > 1 {
		r.Add(group, "server CPU a publish", "µs", meter.CPU(o.Server)*1e6/float64(o.Published.Accepted))
	}
	rest, err := s.atRest(ctx, x)
	if err != nil {
		return 0, err
	}
	r.Add(group, "Redis CPU while nothing is published", "ms/s", rest*1000)
	return micros, nil
}

// atRest returns the CPU time per second that Redis uses while nothing is published.
func (s *Nammayatri) atRest(ctx context.Context, x *streams) (float64, error) {
	before, err := meter.Total(x.pids)
	if err != nil {
		return 0, err
	}
	begun := time.Now()
	if err := wait(ctx, s.CostFor); err != nil {
		return 0, err
	}
	after, err := meter.Total(x.pids)
	return (after.CPU - before.CPU).Seconds() / time.Since(begun).Seconds(), err
}

// poison compares the delay of entries with and without unreadable entries among them. It measures in pairs and alternates which case comes
// first.
func (s *Nammayatri) poison(ctx context.Context, r *report.Result) error {
	for pair := range s.Pairs {
		var p50, p99 [2]float64
		for turn := range 2 {
			with := (turn + pair) % 2
			group := []string{"without poison", "beside poison"}[with]
			s.Testbed.Say("pair %d: %s", pair+1, group)
			o, err := s.reachBeside(ctx, with == 1)
			if err != nil {
				return fmt.Errorf("%s: %w", group, err)
			}
			sum := o.Latency.Summary()
			p50[with], p99[with] = sum.P50, sum.P99
			r.Add(group, "publish to client p50", "ms", sum.P50)
			r.Add(group, "publish to client p99", "ms", sum.P99)
			lost, _ := arrived(o.Published.Messages, o.Counts.Received)
			r.Add(group, "entries lost", "", float64(lost))
		}
		r.Add("beside poison to without", "publish to client p50", "×", p50[1]/p50[0])
		r.Add("beside poison to without", "publish to client p99", "×", p99[1]/p99[0])
	}
	return nil
}

// reachBeside measures the delay of readable entries. With poison, unreadable entries go at the same time to other online clients that
// share their shards.
func (s *Nammayatri) reachBeside(ctx context.Context, poison bool) (*Outcome, error) {
	x, err := s.start(ctx, 1)
	if err != nil {
		return nil, err
	}
	defer x.close()
	p, others := prefix(), prefix()
	var pubs []*worker.Worker
	for _, clients := range []string{p, others} {
		if _, err := s.connect(ctx, x, clients, s.Clients); err != nil {
			return nil, err
		}
		pub, err := s.publisher(ctx, x, clients, s.Clients, clients == others)
		if err != nil {
			return nil, err
		}
		defer pub.Stop()
		pubs = append(pubs, pub)
	}
	if _, _, err := s.load(ctx, x, pubs[0], s.Rates[0], warmUp); err != nil {
		return nil, err
	}
	done := make(chan error, 1)
	go func() { // ends with its publishing, which takes as long as the measured one
		if !poison {
			done <- nil
			return
		}
		_, err := pubs[1].Call(ctx, worker.Request{Publish: &worker.Publish{Rate: s.Poison, For: s.CostFor}})
		done <- err
	}()
	o, _, err := s.load(ctx, x, pubs[0], s.Rates[0], s.CostFor)
	return o, errors.Join(err, <-done)
}
