package mailbox_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
)

// shared is a store to which another process writes too: due copies are found by polling.
type shared struct {
	mailbox.Store
	look   time.Duration
	looks  int
	looked func() // called when the first query has found nothing
}

func (s *shared) Observe(mailbox.Observer) {}
func (s *shared) Clock() func() time.Time  { return time.Now }
func (s *shared) LookAgain() time.Duration { return s.look }
func (s *shared) Due(context.Context, time.Time) (time.Time, error) {
	if s.looks++; s.looks == 1 && s.looked != nil {
		s.looked()
	}
	return time.Time{}, nil
}

func (s *shared) Expire(_ context.Context, now time.Time) (time.Time, error) {
	return now.Add(24 * time.Hour), nil
}
func (s *shared) Prune(context.Context, time.Time) (bool, error) { return false, nil }

func TestUpkeepLooksAsOftenAsTheStoreAsks(t *testing.T) {
	for look, want := range map[time.Duration]int{time.Second: 60, time.Hour: 1} {
		synctest.Test(t, func(t *testing.T) {
			s := &shared{look: look}
			m := mailbox.New(mailbox.Config{Store: s, Log: slog.New(slog.DiscardHandler)})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute-time.Millisecond)
			defer cancel()
			if err := m.Run(ctx); err != nil || s.looks != want {
				t.Errorf("looked %d times in a minute (%v), want %d: the store asked for every %s", s.looks, err, want, look)
			}
		})
	}
}

func TestScheduleDuringUpkeepIsNotMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shared{look: time.Hour}
		m := mailbox.New(mailbox.Config{Store: s, Events: new(diary), Log: slog.New(slog.DiscardHandler)})
		s.looked = func() {
			n := &notification.Notification{App: "demo", ID: "n1", SendAt: time.Now().Add(time.Second), ExpiresAt: time.Now().Add(time.Hour)}
			m.Committed(&mailbox.Batch{Stored: []mailbox.Item{{Pos: 1, Recipient: "ann", N: n}}})
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := m.Run(ctx); err != nil || s.looks != 2 {
			t.Errorf("looked %d times in a minute (%v), want a second time when what was scheduled meanwhile is due", s.looks, err)
		}
	})
}

// told counts the calls for each recipient and checks their order.
type told struct {
	diary
	mu    sync.Mutex
	last  map[string]int64
	wrong int
}

func (r *told) Route(items []mailbox.Item) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, it := range items {
		if it.Pos != r.last[it.Recipient]+1 {
			r.wrong++
		}
		r.last[it.Recipient] = it.Pos
	}
}

// A store with several writers may report commits of different recipients at the same time; each recipient's commits stay in order.
func TestRecipientsAreRoutedAtOnceEachInItsOrder(t *testing.T) {
	r := &told{last: map[string]int64{}}
	m := mailbox.New(mailbox.Config{Store: &shared{look: time.Second}, Events: &r.diary, Log: slog.New(slog.DiscardHandler)})
	m.RouteTo(r, &r.diary)
	const each = 200
	var workers sync.WaitGroup
	for _, to := range []string{"ann", "ben"} {
		workers.Go(func() {
			for pos := range int64(each) {
				n := &notification.Notification{App: "demo", ID: to, ExpiresAt: time.Now().Add(time.Hour)}
				m.Committed(&mailbox.Batch{Stored: []mailbox.Item{{Pos: pos + 1, Recipient: to, Seq: uint64(pos + 1), N: n}}})
			}
		})
	}
	workers.Wait()
	if r.wrong != 0 || r.last["ann"] != each || r.last["ben"] != each {
		t.Errorf("%d came out of order, up to %v", r.wrong, r.last)
	}
	if stored, _ := m.Counts(); stored != 2*each {
		t.Errorf("%d counted", stored)
	}
}
