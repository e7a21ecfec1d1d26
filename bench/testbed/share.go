package testbed

import (
	"context"
	"time"

	"godwit.dev/godwit/bench/latency"
	"godwit.dev/godwit/bench/meter"
	"godwit.dev/godwit/bench/worker"
)

// reading is what a worker measured in a phase.
type reading struct {
	latency *latency.Histogram
	begun   time.Time     // when the phase began
	used    meter.Usage   // at its end
	cpu     time.Duration // that it used in the phase
	span    time.Duration
	within  time.Duration // how far the comparison of its clock may be wrong
	ahead   time.Duration // of this machine's clock to its own
}

// TakeLatency ends a phase, and returns the latencies that the subscribers have recorded in it.
func (s *Site) TakeLatency(ctx context.Context) (*latency.Histogram, error) {
	replies, err := s.Each(ctx, func(*Subscribers) worker.Request { return worker.Request{Latency: true} })
	if err != nil {
		return nil, err
	}
	all := latency.New()
	for i, r := range replies {
		all.Merge(r.Latency)
		if err := s.Subs[i].took(ctx, &r); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// took keeps what a worker measured in a phase.
func (w *Subscribers) took(ctx context.Context, r *worker.Reply) error {
	p, now := &w.part, time.Now()
	p.latency, p.span, p.begun = r.Latency, now.Sub(p.begun), now
	if r.Usage != nil {
		p.cpu, p.used = r.Usage.CPU-p.used.CPU, *r.Usage
	}
	return w.compareClocks(ctx)
}

// compareClocks compares the clock of a worker on another machine. Between two comparisons clocks drift: that counts as uncertainty, too.
func (w *Subscribers) compareClocks(ctx context.Context) error {
	if w.Where() == nil {
		return nil
	}
	within, ahead, err := w.CompareClocks(ctx)
	if err != nil {
		return err
	}
	if p := &w.part; p.latency != nil {
		within += (ahead - p.ahead).Abs()
	}
	w.part.within, w.part.ahead = within, ahead
	return nil
}

// Share is what the workers of one machine measured in a phase.
type Share struct {
	Machine string
	Workers int
	Clients int
	Latency *latency.Histogram
	CPU     float64       // busy cores
	Memory  int64         // bytes at the end
	Clock   time.Duration // how far the comparison of its clock may be wrong
}

// Shares returns what each machine measured in the phase that the last call of TakeLatency ended; nil: no other machine takes part.
func (s *Site) Shares() (all []Share) {
	for _, m := range s.bed.Machines {
		share := Share{Machine: m.Name, Latency: latency.New()}
		for _, w := range s.Subs {
			if w.Where() == nil || w.Where().Name != m.Name || w.part.latency == nil {
				continue
			}
			share.Workers++
			share.Clients += w.Count
			share.Latency.Merge(w.part.latency)
			// All workers of a machine are one process, whose usage each of them tells.
			share.CPU = max(share.CPU, w.part.cpu.Seconds()/w.part.span.Seconds())
			share.Memory = max(share.Memory, w.part.used.Resident)
			share.Clock = max(share.Clock, w.part.within)
		}
		all = append(all, share)
	}
	return all
}
