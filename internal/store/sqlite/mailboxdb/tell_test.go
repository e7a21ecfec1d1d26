package mailboxdb_test

import (
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"godwit.dev/godwit/internal/notify/mailbox"
)

// slow is an observer that blocks at the first commit.
type slow struct {
	entered, leave chan struct{}
	calls          [][]string // ids that each call reported
}

func (o *slow) Committed(b *mailbox.Batch) {
	var ids []string
	for i := range b.Stored {
		ids = append(ids, b.Stored[i].N.ID)
	}
	if o.calls = append(o.calls, ids); len(o.calls) == 1 {
		close(o.entered)
		<-o.leave
	}
}

func TestCommitsThatWaitForTheObserverAreToldAtOnce(t *testing.T) {
	s := openAt(t, filepath.Join(t.TempDir(), "m.db"), config())
	obs := &slow{entered: make(chan struct{}), leave: make(chan struct{})}
	s.Observe(obs)
	var answered atomic.Int32
	var publishers sync.WaitGroup
	publish := func(id string) {
		publishers.Go(func() {
			if err := s.Append(t.Context(), []*mailbox.Append{publishOf(id, 10, "anna")}); err != nil {
				t.Error(err)
			}
			answered.Add(1)
		})
	}
	publish("n1")
	<-obs.entered
	for i, id := range []string{"n2", "n3", "n4"} {
		publish(id)
		for s.Stats().Pending != int64(i+2) { // until it is on disk
			time.Sleep(time.Millisecond)
		}
	}
	if n := answered.Load(); n != 0 {
		t.Errorf("%d publishers were answered before the observer was told", n)
	}
	close(obs.leave)
	publishers.Wait()
	if want := [][]string{{"n1"}, {"n2", "n3", "n4"}}; !slices.EqualFunc(obs.calls, want, slices.Equal[[]string]) {
		t.Errorf("the observer was told of %q, want %q", obs.calls, want)
	}
}
