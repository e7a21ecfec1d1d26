package mailboxdb

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"godwit.dev/godwit/internal/mailbox"
	"godwit.dev/godwit/internal/notification"
)

func TestQuick(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.db")
	s, err := Open(t.Context(), path, Config{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().Truncate(time.Millisecond)
	n := &notification.Notification{App: "a", ID: "x", CreatedAt: now, ExpiresAt: now.Add(time.Hour), Content: notification.Content{Title: "T"}}
	for i := range 3 {
		a := &mailbox.Append{N: n, To: []string{"r1", "r2"}}
		if err := s.Append(t.Context(), []*mailbox.Append{a}); err != nil {
			t.Fatal(err)
		}
		fmt.Println(i, a.Results)
	}
	res, err := s.Pending(t.Context(), []mailbox.PendingQuery{{App: "a", Recipient: "r1"}})
	fmt.Println(res, err)
	q := &mailbox.Settle{App: "a", Recipient: "r1", ID: "x", As: notification.Acked, At: now}
	fmt.Println(s.Settle(t.Context(), []*mailbox.Settle{q}), q.Outcome)
	fmt.Println(s.Lookup(t.Context(), "a", "x", ""))
	fmt.Println(s.Stats())
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, err = Open(t.Context(), path, Config{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println(s.Lookup(t.Context(), "a", "x", ""))
	fmt.Println(s.Stats())
	fmt.Println(s.Pending(t.Context(), []mailbox.PendingQuery{{App: "a", Recipient: "r1"}, {App: "a", Recipient: "r2"}}))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
