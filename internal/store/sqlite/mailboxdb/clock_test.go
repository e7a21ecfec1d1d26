package mailboxdb_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
)

// TestAClockThatWasSetBetweenStartsReordersNothing: a running server keeps the clock that it started with; the next start takes the
// machine's clock of that time.
func TestAClockThatWasSetBetweenStartsReordersNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.db")
	real := time.Now().Truncate(time.Millisecond)
	expires := real.Add(time.Hour)
	var last uint64
	stored := 0
	for _, now := range []time.Time{real, real.Add(-48 * time.Hour), real.Add(30 * time.Minute), real.Add(-24 * time.Hour)} {
		cfg := config()
		cfg.Now = func() time.Time { return now }
		s := openAt(t, path, cfg)
		for range 3 {
			n := &notification.Notification{App: "app", ID: fmt.Sprint("n", stored), CreatedAt: now, ExpiresAt: expires}
			a := &mailbox.Append{N: n, To: []string{"r"}, Fresh: true}
			if err := s.Append(t.Context(), []*mailbox.Append{a}); err != nil || a.Results[0].Err != nil {
				t.Fatalf("at %s: %v, %v", now, err, a.Results)
			}
			stored++
		}
		res, err := s.Pending(t.Context(), []mailbox.PendingQuery{{App: "app", Recipient: "r", Limit: 100}})
		if err != nil || len(res[0].Items) != stored {
			t.Fatalf("at %s %d of %d are pending, %v", now, len(res[0].Items), stored, err)
		}
		for i, it := range res[0].Items {
			if it.N.ID != fmt.Sprint("n", i) || i > 0 && it.Seq != res[0].Items[i-1].Seq+1 {
				t.Errorf("at %s the %d. is %s with seq %d", now, i+1, it.N.ID, it.Seq)
			}
		}
		if res[0].LastSeq <= last {
			t.Errorf("seq %d came after %d", res[0].LastSeq, last)
		}
		last = res[0].LastSeq
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	cfg := config()
	cfg.Now = func() time.Time { return expires.Add(time.Minute) }
	res, err := openAt(t, path, cfg).Pending(t.Context(), []mailbox.PendingQuery{{App: "app", Recipient: "r", Limit: 100}})
	if err != nil || len(res[0].Items) != 0 {
		t.Errorf("after their time %d are pending, %v", len(res[0].Items), err)
	}
}
