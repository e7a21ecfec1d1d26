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

// two opens one file twice. A server does so alone, but the tables themselves take it.
func two(t *testing.T, now func() time.Time) (a, b *Store) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "campaign.db")
	stores := make([]*Store, 2)
	for i := range stores {
		var err error
		if stores[i], err = Open(context.Background(), path, Config{Now: now}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = stores[i].Close() })
	}
	return stores[0], stores[1]
}

func TestTwoStores(t *testing.T) {
	storetest.RunTwoEndpoints(t, func(t *testing.T, now func() time.Time) (a, b storetest.EndpointStore) { return two(t, now) })
	storetest.RunTwoCampaigns(t, func(t *testing.T, now func() time.Time) (a, b storetest.CampaignStore) { return two(t, now) })
}
