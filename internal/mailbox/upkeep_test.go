package mailbox_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"godwit.dev/godwit/internal/mailbox"
)

// shared is a store that another process writes to: what comes due is seen by looking.
type shared struct {
	mailbox.Store
	look  time.Duration
	looks int
}

func (s *shared) Observe(mailbox.Observer) {}
func (s *shared) Clock() func() time.Time  { return time.Now }
func (s *shared) LookAgain() time.Duration { return s.look }
func (s *shared) Due(context.Context, time.Time) (time.Time, error) {
	s.looks++
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
