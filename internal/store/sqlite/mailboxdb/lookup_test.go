package mailboxdb_test

import (
	"errors"
	"path/filepath"
	"testing"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/store/sqlite/mailboxdb"
)

func TestAReadThatFailsIsNoEmptyAnswer(t *testing.T) {
	s, err := mailboxdb.Open(t.Context(), filepath.Join(t.TempDir(), "m.db"), config())
	if err == nil {
		err = errors.Join(s.Append(t.Context(), []*mailbox.Append{publishOf("n", 10, "anna")}), s.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	if items, _, err := s.History(t.Context(), "app", "anna", 0, 10, 0); err == nil {
		t.Errorf("the history of a closed store is %v", items)
	}
	if records, err := s.Lookup(t.Context(), "app", "n", "anna"); err == nil || errors.Is(err, mailbox.ErrNotFound) {
		t.Errorf("what became of it is %v, %v", records, err)
	}
}
