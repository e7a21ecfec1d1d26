package campaigndb

import (
	"context"
	"path/filepath"
	"testing"

	"godwit.dev/godwit/internal/store/storetest"
)

// reopening opens a file; reopen closes it and opens it again.
func reopening(t *testing.T) (s *Store, reopen func() *Store) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "campaign.db")
	reopen = func() *Store {
		if s != nil {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
		var err error
		if s, err = Open(context.Background(), path, Config{}); err != nil {
			t.Fatal(err)
		}
		return s
	}
	t.Cleanup(func() { _ = s.Close() })
	return reopen(), reopen
}

func TestSends(t *testing.T) {
	storetest.RunSends(t, func(t *testing.T) (storetest.SendStore, func() storetest.SendStore) {
		s, reopen := reopening(t)
		return s, func() storetest.SendStore { return reopen() }
	})
}

func TestPreferences(t *testing.T) {
	storetest.RunPreferences(t, func(t *testing.T) (storetest.PreferenceStore, func() storetest.PreferenceStore) {
		s, reopen := reopening(t)
		return s, func() storetest.PreferenceStore { return reopen() }
	})
}
