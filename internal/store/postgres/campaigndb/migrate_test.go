package campaigndb_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"godwit.dev/godwit/internal/sending/dispatch"
	"godwit.dev/godwit/internal/store/postgres/campaigndb"
	"godwit.dev/godwit/internal/store/postgres/pgdb"
	"godwit.dev/godwit/internal/store/postgres/pgtest"
)

// TestSendsOfAVersionWithOneOwnerForAllAppsGoOn settles, app by app, the sends that were under way with the single owner; if that owner
// still runs, it does not take over again.
func TestSendsOfAVersionWithOneOwnerForAllAppsGoOn(t *testing.T) {
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	before := t.TempDir()
	for _, name := range []string{"0001_endpoints.sql", "0002_campaigns.sql", "0003_preferences.sql", "0004_push_sends.sql"} {
		text, err := os.ReadFile(filepath.Join("migrations", name))
		ok(err)
		ok(os.WriteFile(filepath.Join(before, name), text, 0o600))
	}
	url, schema := pgtest.URL(t), pgtest.Schema(t)
	old, err := pgdb.Open(t.Context(), pgdb.Config{URL: url, Schema: schema, Migrations: os.DirFS(before)})
	ok(err)
	defer old.Close()
	const take = `INSERT INTO send_owner (one, epoch) VALUES (true, $1) ON CONFLICT (one) DO UPDATE SET epoch = excluded.epoch`
	epoch := time.Now().Add(time.Hour).UnixMilli() // above what comes
	_, err = old.Pool().Exec(t.Context(), take, epoch)
	ok(err)
	for _, app := range []string{"shop", "taxi"} {
		_, err = old.Pool().Exec(t.Context(), `INSERT INTO push_send (id, app, recipient, note, pos, step, endpoint, endpoint_id, channel, outcome, due, attempts, flags, epoch, first_at, at, expires_at, external, detail, target)
			VALUES (convert_to($1, 'UTF8'), $1, 'r', 'n', 7, 0, 0, '', 1, 1, 1, 0, 0, $2, 1, 1, $3, '', '', '')`, app, epoch, time.Now().Add(time.Hour).UnixMilli())
		ok(err)
	}
	s, err := campaigndb.Open(t.Context(), campaigndb.Config{URL: url, Schema: schema})
	ok(err)
	defer s.Close()
	if places, err := s.WaitingSends(t.Context()); err != nil || len(places) != 2 {
		t.Fatalf("waiting %v, %v; want what was being sent of two apps", places, err)
	}
	n, err := s.RecoverSends(t.Context(), "shop", nil, time.Now())
	if err != nil || n != 1 {
		t.Errorf("recovered %d, %v; want one", n, err)
	}
	for app, want := range map[string]dispatch.Outcome{"shop": dispatch.Unknown, "taxi": dispatch.Sending} {
		if list, err := s.SendsOf(t.Context(), app, "n", "r"); err != nil || len(list) != 1 || list[0].Outcome != want {
			t.Errorf("%s: %+v, %v; want %v", app, list, err, want)
		}
	}
	if _, err := old.Pool().Exec(t.Context(), take, epoch+1); err == nil {
		t.Error("the owner of all apps takes over again")
	}
}
