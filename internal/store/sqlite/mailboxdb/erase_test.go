package mailboxdb_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"godwit.dev/godwit/internal/mailbox"
	"godwit.dev/godwit/internal/notification"
	"godwit.dev/godwit/internal/store/sqlite/mailboxdb"
)

// Others publish between the slices. (100,000 take about a second.)
func TestErasingMuchIsDoneInSlices(t *testing.T) {
	const rows, slice = 5000, 250
	s := openAt(t, filepath.Join(t.TempDir(), "mailbox.db"), config())
	fill(t, s, rows)
	before := s.Stats().Commits
	if err := s.Erase(t.Context(), "app", "r"); err != nil {
		t.Fatal(err)
	}
	if n := s.Stats().Commits - before; n < rows/slice {
		t.Errorf("%d rows were erased with %d commits, want one for each %d", rows, n, slice)
	}
	if list, _, err := s.History(t.Context(), "app", "r", 0, 10, 0); err != nil || len(list) != 0 {
		t.Errorf("history %v, %v", list, err)
	}
}

func TestNacksGoWithTheirRows(t *testing.T) {
	s := openAt(t, filepath.Join(t.TempDir(), "mailbox.db"), config())
	now := time.Now()
	nack := func(to string) {
		t.Helper()
		publish(t, s, to, "n", now)
		for range notification.MaxNacks - 1 {
			settle(t, s, &mailbox.Settle{App: "app", Recipient: to, ID: "n", As: notification.Failed, Nack: true, Reason: "x", At: now})
		}
	}
	want := func(n int, when string) {
		t.Helper()
		if got, err := s.Nacked(t.Context()); err != nil || got != n {
			t.Errorf("%s: %d copies with nacks, %v; want %d", when, got, err, n)
		}
	}
	nack("pending")
	nack("settled")
	nack("old")
	settle(t, s, &mailbox.Settle{App: "app", Recipient: "settled", ID: "n", As: notification.Acked, At: now})
	settle(t, s, &mailbox.Settle{App: "app", Recipient: "old", ID: "n", As: notification.Failed, Nack: true, Reason: "x", At: now.Add(-time.Hour)})
	want(3, "before")
	for more := true; more; {
		var err error
		if more, err = s.Prune(t.Context(), now.Add(-time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	want(2, "after the old one was pruned")
	for _, to := range []string{"pending", "settled"} {
		if err := s.Erase(t.Context(), "app", to); err != nil {
			t.Fatal(err)
		}
	}
	want(0, "after erasing")
}

func publish(t *testing.T, s *mailboxdb.Store, to, id string, now time.Time) {
	t.Helper()
	n := &notification.Notification{App: "app", ID: id, CreatedAt: now.Add(-2 * time.Hour), ExpiresAt: now.Add(time.Hour)}
	if err := s.Append(t.Context(), []*mailbox.Append{{N: n, To: []string{to}, Results: make([]mailbox.AppendResult, 1)}}); err != nil {
		t.Fatal(err)
	}
}

func settle(t *testing.T, s *mailboxdb.Store, q *mailbox.Settle) {
	t.Helper()
	if err := s.Settle(t.Context(), []*mailbox.Settle{q}); err != nil || q.Outcome == mailbox.SettleUnknown {
		t.Fatal(err, q.Outcome)
	}
}

func fill(t *testing.T, s *mailboxdb.Store, rows int) {
	t.Helper()
	now := time.Now()
	for i := 0; i < rows; i += 1000 {
		var batch []*mailbox.Append
		var acks []*mailbox.Settle
		for k := range 1000 {
			n := &notification.Notification{App: "app", ID: fmt.Sprint(i + k), CreatedAt: now, ExpiresAt: now.Add(time.Hour)}
			batch = append(batch, &mailbox.Append{N: n, To: []string{"r"}, Results: make([]mailbox.AppendResult, 1)})
			acks = append(acks, &mailbox.Settle{App: "app", Recipient: "r", ID: n.ID, As: notification.Acked, At: now})
		}
		if err := s.Append(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
		if err := s.Settle(t.Context(), acks); err != nil {
			t.Fatal(err)
		}
	}
}
