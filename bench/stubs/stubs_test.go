package stubs

import (
	"path/filepath"
	"testing"
	"time"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/store/sqlite/mailboxdb"
)

func TestAStoreGoesOnWhereTheStubsEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mailbox.db")
	n := 300_000
	if testing.Short() {
		n = 30_000 // less than a slice, so nothing is sealed
	}
	if err := Fill(t.Context(), path, "demo", n); err != nil {
		t.Fatal(err)
	}
	s, err := mailboxdb.Open(t.Context(), path, mailboxdb.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	old, _, err := s.History(t.Context(), "demo", "stub-0000007", 0, 1000, 0)
	if err != nil || len(old) != perRecipient || old[0].Status != notification.Acked || old[0].Seq <= old[1].Seq {
		t.Fatalf("history of %d, %v; want %d acked ones, newest first", len(old), err, perRecipient)
	}
	found, err := s.Lookup(t.Context(), "demo", old[50].ID, "stub-0000007")
	if err != nil || len(found) != 1 || found[0].Pos != old[50].Pos {
		t.Errorf("looking %s up finds %+v, %v", old[50].ID, found, err)
	}
	now := time.Now()
	a := &mailbox.Append{To: []string{"stub-0000007"}, N: &notification.Notification{App: "demo", ID: "new", CreatedAt: now, ExpiresAt: now.Add(time.Hour)}}
	if err := s.Append(t.Context(), []*mailbox.Append{a}); err != nil || a.Results[0].Err != nil {
		t.Fatal(err, a.Results[0].Err)
	}
	if got, err := s.Lookup(t.Context(), "demo", "new", "stub-0000007"); err != nil || len(got) != 1 || got[0].Pos != int64(n+1) || got[0].Seq <= old[0].Seq {
		t.Errorf("the next notification is %+v, %v; want it at %d with a seq above %d", got, err, n+1, old[0].Seq)
	}
	for more := true; more; {
		if more, err = s.Prune(t.Context(), now.Add(-7*24*time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	if left, _, err := s.History(t.Context(), "demo", "stub-0000007", 0, 1000, 0); err != nil || len(left) > perRecipient*9/10 {
		t.Errorf("after retention %d are left, %v; want those of seven days of eight", len(left), err)
	}
}
