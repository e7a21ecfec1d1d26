package delivery_test

import (
	"context"
	"testing"
	"time"

	"godwit.dev/godwit/internal/notify/delivery"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
)

// taker is a store that accepts everything and allocates nothing.
type taker struct{ results []mailbox.AppendResult }

func (s *taker) Append(_ context.Context, batch []*mailbox.Append) error {
	for _, a := range batch {
		a.Results = s.results[:len(a.To)]
	}
	return nil
}

// told is a tracer that records its calls.
type told struct{ began, ended []notification.Trace }

func (t *told) Publishing(_ []*mailbox.Append, of []notification.Trace) func(error) {
	t.began = append(t.began, of...)
	return func(error) { t.ended = append(t.ended, of...) }
}

// Without tracing, a publish allocates nothing but its results, copies, batch and notification.
func TestTracingThatIsOffAllocatesNothing(t *testing.T) {
	const before = 6
	s := delivery.New(&taker{make([]mailbox.AppendResult, 1)}, time.Now)
	drafts := []*notification.Draft{{To: []string{"ann"}, ID: "n", Content: notification.Content{Title: "Hi"}, Trace: notification.Trace{Parent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}}}
	n := testing.AllocsPerRun(100, func() {
		if r := s.Publish(t.Context(), "demo", drafts); r[0].Err != nil {
			t.Fatal(r[0].Err)
		}
	})
	if n > before {
		t.Errorf("a publish that nobody traces allocates %v times, want %d", n, before)
	}
}

func TestATracerIsToldWhereEachPublishCameFrom(t *testing.T) {
	s := delivery.New(&taker{make([]mailbox.AppendResult, 1)}, time.Now)
	var to told
	s.TraceWith(&to)
	of := func(name string) notification.Trace { return notification.Trace{Parent: name} }
	s.Publish(t.Context(), "demo", []*notification.Draft{
		{To: []string{"ann"}, Content: notification.Content{Title: "1"}, Trace: of("one")},
		{To: nil, Content: notification.Content{Title: "refused"}, Trace: of("refused")},
		{To: []string{"ben"}, Content: notification.Content{Title: "2"}, Trace: of("two")},
	})
	for _, got := range [][]notification.Trace{to.began, to.ended} {
		if len(got) != 2 || got[0] != of("one") || got[1] != of("two") {
			t.Errorf("told of %v", got)
		}
	}
}
