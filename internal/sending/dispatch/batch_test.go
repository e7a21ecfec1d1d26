package dispatch

import (
	"context"
	"slices"
	"testing"
	"time"
)

// sized is a backlog that records how many outcomes are stored together.
type sized struct {
	*rows
	sizes []int
}

func (s *sized) Finish(ctx context.Context, results []Result, now time.Time) error {
	s.sizes = append(s.sizes, len(results))
	return s.rows.Finish(ctx, results, now)
}

func TestOneCommitTakesNoMoreOutcomesThanItsLimit(t *testing.T) {
	const all = 2*resultBatch + 1
	s := &sized{rows: newRows(all)}
	job, err := newDispatcher(t, &service{}).Job(Work{App: "demo", Backlog: s})
	if err != nil {
		t.Fatal(err)
	}
	job.hard = t.Context()
	job.results = make(chan landed, all)
	l := &channelSender{inFlight: make(chan struct{}, all), wake: make(chan struct{}, 1)}
	for n := range int64(all) {
		l.inFlight <- struct{}{}
		job.results <- landed{Result: Result{Row: n + 1, Outcome: Accepted}, of: l}
	}
	close(job.results)
	if err := job.write(); err != nil || !slices.Equal(s.sizes, []int{resultBatch, resultBatch, 1}) {
		t.Errorf("%d outcomes are committed as %v, %v", all, s.sizes, err)
	}
	if n := s.count(Accepted); n != all || len(l.inFlight) != 0 {
		t.Errorf("%d of %d are written, %d count as under way", n, all, len(l.inFlight))
	}
}
