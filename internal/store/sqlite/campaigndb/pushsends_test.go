package campaigndb

import (
	"context"
	"path/filepath"
	"testing"

	"godwit.dev/godwit/internal/store/storetest"
)

func TestSends(t *testing.T) {
	storetest.RunSends(t, func(t *testing.T) (storetest.SendStore, func() storetest.SendStore) {
		path := filepath.Join(t.TempDir(), "campaign.db")
		var s *Store
		reopen := func() storetest.SendStore {
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
	})
}
