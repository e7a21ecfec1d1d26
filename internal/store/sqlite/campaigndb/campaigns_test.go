package campaigndb

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
	"godwit.dev/godwit/internal/store/storetest"
)

func TestCampaigns(t *testing.T) {
	storetest.RunCampaigns(t, func(t *testing.T, now func() time.Time) (storetest.CampaignStore, func() storetest.CampaignStore) {
		reopen := reopening(t, now)
		return reopen(), func() storetest.CampaignStore { return reopen() }
	})
}

// two opens one file twice. A server opens it only once, but the tables allow more.
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
	storetest.RunTwoPreferences(t, func(t *testing.T, now func() time.Time) (a, b storetest.PreferenceStore) { return two(t, now) })
}

func TestADiskShortOfSpaceTakesNothingNew(t *testing.T) {
	free := int64(100)
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "campaign.db"), Config{Free: func() int64 { return free }, MinFree: 100})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	take := func(n int) error {
		_, err := s.Insert(t.Context(), &campaign.Campaign{ID: fmt.Sprint(n), App: "app", State: campaign.Running, Channels: []push.Channel{push.Telegram}}, "", [32]byte{})
		_, registered := s.Register(t.Context(), "app", []audience.Registration{registration(t, n)})
		if (err == nil) != (registered == nil) {
			t.Errorf("with %d free a campaign says %v, an endpoint %v", free, err, registered)
		}
		return err
	}
	if err := take(1); err != nil {
		t.Errorf("with just enough: %v", err)
	}
	free--
	if err := take(2); !errors.Is(err, mailbox.ErrNoSpace) {
		t.Errorf("short of space: %v", err)
	}
	epoch, err := s.Own(t.Context(), "app")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Enumerate(t.Context(), epoch, 1, 10, func(*campaign.Target) campaign.Place { return campaign.Place{Due: time.Now()} }); !errors.Is(err, mailbox.ErrNoSpace) {
		t.Errorf("deliveries short of space: %v", err)
	}
}

// TestSendsOfFormerSingleOwnerAreSettled uses a file of a version in which all apps had a single owner.
func TestSendsOfFormerSingleOwnerAreSettled(t *testing.T) {
	s := open(t)
	c := &campaign.Campaign{ID: "old", App: "app", State: campaign.Running, Channels: []push.Channel{push.Telegram}}
	if _, err := s.Insert(t.Context(), c, "", [32]byte{}); err != nil {
		t.Fatal(err)
	}
	err := s.db.Do(t.Context(), func(conn *sqlite.Conn) error {
		return errors.Join(
			sqlitedb.Each(conn, "UPDATE delivery_owner SET epoch = 41", nil, nil),
			sqlitedb.Each(conn, `INSERT INTO delivery(campaign, endpoint, endpoint_id, channel, outcome, due, attempts, flags, epoch, first_at, at, external, detail)
				VALUES (?, 1, zeroblob(16), 3, 1, 0, 0, 0, 41, 0, 0, '', '')`, []any{c.Num}, nil))
	})
	if err != nil {
		t.Fatal(err)
	}
	epoch, err := s.Own(t.Context(), "app")
	if err != nil || epoch <= 41 {
		t.Fatalf("epoch %d, %v; want one above 41", epoch, err)
	}
	if n, err := s.Recover(t.Context(), "app", epoch, 10, nil, time.Now()); n != 1 || err != nil {
		t.Errorf("%d are settled, %v", n, err)
	}
}
