package campaigndb

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"godwit.dev/godwit/internal/store/storetest"
)

func TestCampaigns(t *testing.T) {
	storetest.RunCampaigns(t, func(t *testing.T, now func() time.Time) (storetest.CampaignStore, func() storetest.CampaignStore) {
		path := filepath.Join(t.TempDir(), "campaign.db")
		var s *Store
		reopen := func() storetest.CampaignStore {
			if s != nil {
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			}
			var err error
			if s, err = Open(context.Background(), path, Config{Now: now}); err != nil {
				t.Fatal(err)
			}
			return s
		}
		t.Cleanup(func() { _ = s.Close() })
		return reopen(), reopen
	})
}
