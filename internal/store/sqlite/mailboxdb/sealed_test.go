package mailboxdb_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/store/sqlite/mailboxdb"
	"godwit.dev/godwit/internal/testkit/eventually"
)

func TestSmallSlicesAreSealedAndDroppedWhenPruned(t *testing.T) {
	cfg := config()
	cfg.SmallSlices(6)
	path := filepath.Join(t.TempDir(), "m.db")
	s := openAt(t, path, cfg)
	for i := range 640 {
		a := publishOf(fmt.Sprint("n", i), 10, "r")
		if err := s.Append(t.Context(), []*mailbox.Append{a}); err != nil {
			t.Fatal(err)
		}
		if err := s.Settle(t.Context(), []*mailbox.Settle{ackOf(a)}); err != nil {
			t.Fatal(err)
		}
	}
	untilSealed(t, s, 10) // the eleventh slice has only the newest row
	for more := true; more; {
		var err error
		if more, err = s.Prune(t.Context(), time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	if s.Sealed() != 0 {
		t.Errorf("%d slices are left although their rows are gone", s.Sealed())
	}
	if _, err := s.Lookup(t.Context(), "app", "n5", "r"); !errors.Is(err, mailbox.ErrNotFound) {
		t.Errorf("a pruned one: %v, want not found", err)
	}
}

// A long read may meet a slice that was sealed after it had begun, again and again.
func TestCopiesAreFoundWhileTheirSlicesAreSealedOneAfterAnother(t *testing.T) {
	cfg := config()
	cfg.SmallSlices(3)
	path := filepath.Join(t.TempDir(), "m.db")
	s := openAt(t, path, cfg)
	to := make([]string, 2000)
	for i := range to {
		to[i] = fmt.Sprint("r", i)
	}
	list := publishOf("x", 10, to...)
	if err := s.Append(t.Context(), []*mailbox.Append{list}); err != nil {
		t.Fatal(err)
	}
	acks := make([]*mailbox.Settle, len(to))
	for i := range to {
		acks[i] = &mailbox.Settle{App: "app", Recipient: to[i], ID: "x", As: notification.Acked, At: list.N.CreatedAt}
	}
	if err := s.Settle(t.Context(), acks); err != nil {
		t.Fatal(err)
	}
	slices := len(to)/8 - 1
	for sealed := false; !sealed; {
		sealed = s.Sealed() >= slices
		if records, err := s.Lookup(t.Context(), "app", "x", ""); err != nil || len(records) != len(to) {
			t.Fatalf("with %d slices sealed %d of %d copies are found: %v", s.Sealed(), len(records), len(to), err)
		}
	}
}

func untilSealed(t *testing.T, s *mailboxdb.Store, slices int) {
	t.Helper()
	eventually.True(t, fmt.Sprintf("%d slices are sealed", slices), func() bool { return s.Sealed() >= slices })
}

func TestASealedSliceHasAllItsBlocks(t *testing.T) {
	cfg := config()
	cfg.SmallSlices(11)
	path := filepath.Join(t.TempDir(), "m.db")
	s, err := mailboxdb.Open(t.Context(), path, cfg)
	if err != nil {
		t.Fatal(err)
	}
	to := make([]string, 1000)
	for i := range to {
		to[i] = fmt.Sprint("r", i)
	}
	for i := range 5 {
		if err := s.Append(t.Context(), []*mailbox.Append{publishOf(fmt.Sprint("n", i), 10, to...)}); err != nil {
			t.Fatal(err)
		}
	}
	untilSealed(t, s, 2)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openAt(t, path, cfg)
	for i := range 5 {
		id := fmt.Sprint("n", i)
		if recs, err := s.Lookup(t.Context(), "app", id, ""); err != nil || len(recs) != len(to) {
			t.Errorf("%d copies of %s, %v", len(recs), id, err)
		}
	}
	for i := 0; i < len(to); i += 97 {
		if recs, _, err := s.History(t.Context(), "app", to[i], 0, 10, 0); err != nil || len(recs) != 5 {
			t.Errorf("%d copies for %s, %v", len(recs), to[i], err)
		}
	}
}
