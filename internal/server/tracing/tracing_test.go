package tracing_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.uber.org/goleak"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/server/tracing"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	asked = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	quiet = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
)

// collector is an exporter that records spans.
type collector struct {
	mu    sync.Mutex
	spans []sdk.ReadOnlySpan
	err   error
	asked int
	hold  chan struct{} // nil: it answers at once
}

func (c *collector) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	if c.hold != nil {
		select {
		case <-c.hold:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	if c.err == nil {
		c.spans = append(c.spans, spans...)
	}
	return c.err
}

func (c *collector) Shutdown(context.Context) error { return nil }

// names returns the names of a trace's spans, in the order in which they ended.
func (c *collector) names(trace string) (list []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		if s.SpanContext().TraceID().String() == trace {
			list = append(list, s.Name())
		}
	}
	return list
}

// shelf is an in-memory Keeper.
type shelf struct {
	mu   sync.Mutex
	kept map[tracing.Copy]tracing.Kept
	most int
}

func (s *shelf) Load(context.Context) (list []tracing.Kept, _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.kept {
		list = append(list, k)
	}
	return list, nil
}

func (s *shelf) Save(_ context.Context, add []tracing.Kept, drop []tracing.Copy) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range add {
		s.kept[k.Copy] = k
	}
	for _, c := range drop {
		delete(s.kept, c)
	}
	s.most = max(s.most, len(s.kept))
	return nil
}

func (s *shelf) Close() error { return nil }

// counts returns the number of stored copies now, and the highest number so far.
func (s *shelf) counts() (now, most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.kept), s.most
}

func start(t *testing.T, to sdk.SpanExporter, on tracing.Keeper) (tr *tracing.Tracer, stop func()) {
	t.Helper()
	tr, err := tracing.New(t.Context(), tracing.Config{Exporter: to, Keeper: on, Version: "1", Node: "n1", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = tr.Run(ctx) }()
	return tr, func() {
		cancel()
		<-done
		if err := tr.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

func publish(tr *tracing.Tracer, id, traceparent string, to ...string) {
	n := &notification.Notification{App: "demo", ID: id, ExpiresAt: time.Now().Add(time.Hour)}
	a := &mailbox.Append{N: n, To: to, Results: make([]mailbox.AppendResult, len(to))}
	done := tr.Publishing([]*mailbox.Append{a}, []notification.Trace{{Parent: traceparent}})
	b := &mailbox.Batch{}
	for i, name := range to {
		b.Stored = append(b.Stored, mailbox.Item{Pos: int64(i + 1), Recipient: name, Seq: 1, N: n})
	}
	tr.Committed(b)
	done(nil)
}

func deliver(tr *tracing.Tracer, id, to string) {
	tr.Delivered([]mailbox.Mark{{App: "demo", Recipient: to, ID: id, Attempts: 1, DeliveredAt: time.Now()}})
}

func settle(tr *tracing.Tracer, id, to string, as notification.Status) {
	tr.Committed(&mailbox.Batch{Settled: []mailbox.Settled{{App: "demo", Recipient: to, ID: id, As: as, At: time.Now()}}})
}

func TestOneTraceLeadsFromThePublishToTheAcknowledgement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &collector{}
		tr, stop := start(t, to, nil)
		publish(tr, "n", asked, "ann", "ben")
		deliver(tr, "n", "ann")
		if done := tr.Pushing("demo", "ben", "n", "fcm", 1); done != nil {
			done(errors.New("503"))
		}
		settle(tr, "n", "ann", notification.Acked)
		if done := tr.Posting("demo", "ann", "n", "crm", "acked"); done != nil {
			done(nil)
		}
		settle(tr, "n", "ben", notification.Expired)
		stop()
		want := []string{"commit", "publish demo", "deliver demo", "push fcm", "ack demo", "hook crm", "expired demo"}
		if got := to.names("0af7651916cd43dd8448eb211c80319c"); !slices.Equal(got, want) {
			t.Errorf("spans %q, want %q", got, want)
		}
		publish := to.spans[1]
		if publish.Parent().SpanID().String() != "b7ad6b7169203331" || publish.SpanKind().String() != "producer" {
			t.Errorf("the publish is a %s below %s", publish.SpanKind(), publish.Parent().SpanID())
		}
		for _, s := range to.spans {
			if s.Name() != "publish demo" && s.Parent().SpanID() != publish.SpanContext().SpanID() {
				t.Errorf("%s hangs from %s, not from the publish", s.Name(), s.Parent().SpanID())
			}
			if s.Name() == "commit" && (len(s.Links()) != 1 || s.Links()[0].SpanContext.SpanID() != publish.SpanContext().SpanID()) {
				t.Errorf("the commit has the links %v", s.Links())
			}
			if failed := s.Status().Description != ""; failed != (s.Name() == "push fcm") {
				t.Errorf("%s ended with %q", s.Name(), s.Status().Description)
			}
		}
	})
}

func TestUnsampledPublishIsNotFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to, on := &collector{}, &shelf{kept: map[tracing.Copy]tracing.Kept{}}
		tr, stop := start(t, to, on)
		publish(tr, "n", quiet, "ann")
		deliver(tr, "n", "ann")
		if tr.Pushing("demo", "ann", "n", "fcm", 1) != nil {
			t.Error("its push is followed")
		}
		time.Sleep(time.Second)
		stop()
		if _, most := on.counts(); len(to.spans) != 0 || most != 0 {
			t.Errorf("%d spans, %d kept", len(to.spans), most)
		}
	})
}

func TestAParentThatIsNoneBeginsATrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &collector{}
		tr, stop := start(t, to, nil)
		for _, p := range []string{"", "00-0", "00-" + strings.Repeat("0", 32) + "-b7ad6b7169203331-01", "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"} {
			publish(tr, "n", p, "ann")
			settle(tr, "n", "ann", notification.Acked)
			time.Sleep(2 * time.Minute) // the copy is no longer traced
		}
		stop()
		roots := 0
		for _, s := range to.spans {
			if s.Name() == "publish demo" && !s.Parent().IsValid() {
				roots++
			}
		}
		if roots != 4 {
			t.Errorf("%d of 4 publishes begin a trace", roots)
		}
	})
}

func TestARestartGoesOnWithWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		on := &shelf{kept: map[tracing.Copy]tracing.Kept{}}
		tr, stop := start(t, &collector{}, on)
		publish(tr, "waits", asked, "ann")
		publish(tr, "late", asked, "ben")
		publish(tr, "done", asked, "ann")
		settle(tr, "done", "ann", notification.Acked)
		time.Sleep(time.Second)
		if _, most := on.counts(); most != 2 {
			t.Errorf("%d were kept; what came and went at once need not be", most)
		}
		stop()

		time.Sleep(30 * time.Minute)
		to := &collector{}
		tr, stop = start(t, to, on)
		deliver(tr, "waits", "ann")
		settle(tr, "waits", "ann", notification.Acked)
		stop()
		want := []string{"deliver demo", "ack demo"}
		if got := to.names("0af7651916cd43dd8448eb211c80319c"); !slices.Equal(got, want) {
			t.Errorf("spans after the restart %q, want %q", got, want)
		}
		if now, _ := on.counts(); now != 1 {
			t.Errorf("%d are kept", now)
		}

		time.Sleep(time.Hour) // it has expired meanwhile
		_, stop = start(t, to, on)
		stop()
		if now, _ := on.counts(); now != 0 {
			t.Errorf("%d are still kept", now)
		}
	})
}

func TestRefusedPublishIsNotFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &collector{}
		tr, stop := start(t, to, nil)
		a := &mailbox.Append{N: &notification.Notification{App: "demo", ID: "n", ExpiresAt: time.Now().Add(time.Hour)}, To: []string{"ann"}}
		tr.Publishing([]*mailbox.Append{a}, []notification.Trace{{Parent: asked}})(mailbox.ErrNoSpace)
		if tr.Pushing("demo", "ann", "n", "fcm", 1) != nil {
			t.Error("it is followed")
		}
		stop()
		if len(to.spans) != 1 || to.spans[0].Status().Description != mailbox.ErrNoSpace.Error() {
			t.Errorf("spans are %v", to.spans)
		}
	})
}

func TestASlowCollectorKeepsNobodyWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &collector{hold: make(chan struct{})}
		tr, stop := start(t, to, nil)
		begun := time.Now()
		for range 10_000 {
			publish(tr, "n", asked, "ann")
		}
		if took := time.Since(begun); took != 0 {
			t.Errorf("publishes waited %s", took)
		}
		synctest.Wait()
		if got := figures(t, tr); got["dropped"] < 5000 || got["sent"] != 0 {
			t.Errorf("metrics say %v", got)
		}
		close(to.hold)
		stop()
		got := figures(t, tr)
		if n := float64(len(to.spans)); n != got["sent"] || n == 0 {
			t.Errorf("%v spans came, and metrics say %v", n, got)
		}
	})
}

func TestAStopWaitsForNoCollectorThatDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, err := tracing.New(t.Context(), tracing.Config{Exporter: &collector{hold: make(chan struct{})}, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() { defer close(done); _ = tr.Run(ctx) }()
		publish(tr, "n", asked, "ann")
		time.Sleep(1500 * time.Millisecond) // it is being sent
		deliver(tr, "n", "ann")
		begun := time.Now()
		cancel()
		<-done
		last, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		if err := tr.Close(last); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if took := time.Since(begun); took != 4*time.Second {
			t.Errorf("it took %s", took)
		}
		if got := figures(t, tr); got["failed"] != 3 {
			t.Errorf("metrics say %v", got)
		}
	})
}

func TestACollectorThatIsAwayCostsItsSpansAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &collector{err: errors.New("connection refused")}
		tr, stop := start(t, to, nil)
		publish(tr, "n", asked, "ann")
		time.Sleep(5 * time.Second)
		if got := figures(t, tr); got["failed"] != 2 {
			t.Errorf("metrics say %v", got)
		}
		for range 100 { // during its pause the exporter tries nothing that would fail
			deliver(tr, "n", "ann")
			time.Sleep(50 * time.Millisecond)
		}
		to.mu.Lock()
		if to.asked > 3 {
			t.Errorf("asked %d times in ten seconds", to.asked)
		}
		to.mu.Unlock()
		time.Sleep(10 * time.Second)
		to.mu.Lock()
		to.err = nil
		to.mu.Unlock()
		deliver(tr, "n", "ann")
		stop()
		if got := to.names("0af7651916cd43dd8448eb211c80319c"); !slices.Equal(got, []string{"deliver demo"}) {
			t.Errorf("spans %q", got)
		}
	})
}
