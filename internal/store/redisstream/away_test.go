package redisstream

import (
	"slices"
	"testing"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/testkit/eventually"
	"godwit.dev/godwit/internal/testkit/redisserver/redistest"
)

func TestARedisThatHangsLosesNothing(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	w := newWorld(t, s.URL())
	got := w.joined(driver, "a", "b")
	s.Stop()
	w.ack(driver, "a", got[0].Pos)
	if again := w.pending(driver); len(again.Items) != 0 || again.More {
		t.Errorf("of a Redis that hangs there is %v", ids(again.Items))
	}
	s.Continue()
	eventually.True(t, "what was acknowledged being deleted", func() bool { return w.departing() == 0 })
	w.untilReread(driver)
	w.wantPending(driver, "b")
}

func TestAcknowledgementHoldsForReturningClient(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	w := newWorld(t, s.URL())
	got := w.joined(driver, "a", "b")
	s.Kill()
	w.ack(driver, "a", got[0].Pos)
	w.Left(driver)
	w.Joined(driver)
	if n := w.kept(driver); n != 1 {
		t.Errorf("%d entries are known, want the one that is to be deleted", n)
	}
	w.restart(s)
	var now []mailbox.Item
	eventually.True(t, "what is left being read", func() bool { now = w.pending(driver).Items; return len(now) > 0 })
	if !slices.Equal(ids(now), []string{"b"}) {
		t.Errorf("then pending are %v", ids(now))
	}
	w.untilLeft(driver, 1)
}

func TestRedisAwayLosesNothing(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	w := newWorld(t, s.URL())
	got := w.joined(driver, "a", "b")
	w.deliver(got...)
	if err := w.Ready(t.Context()); err != nil {
		t.Error(err)
	}
	s.Kill()
	if err := w.Ready(t.Context()); err == nil {
		t.Error("it is ready without Redis")
	}
	w.ack(driver, "a", got[0].Pos)
	other := "00000000-0000-0000-0000-000000000001"
	w.Joined(other)
	if got := w.pending(other); len(got.Items) != 0 || got.More {
		t.Errorf("without Redis there is %+v", got)
	}
	if items, err := w.Items(t.Context(), []mailbox.Ref{{Recipient: driver, Pos: got[1].Pos}}); err != nil || items[0] != nil {
		t.Errorf("without Redis there is %v, %v", items, err)
	}
	w.restart(s)
	w.add(other, "c")
	w.untilLeft(driver, 1)
	w.untilRouted(other, "c")
	w.untilReread(driver)
	w.wantPending(driver, "b")
	if err := w.Ready(t.Context()); err != nil {
		t.Error(err)
	}
}
