package digestdb_test

import (
	"context"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"go.uber.org/goleak"

	"godwit.dev/godwit/internal/notify/digest"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/store"
	"godwit.dev/godwit/internal/store/digestdb"
	"godwit.dev/godwit/internal/store/postgres/pgtest"
	"godwit.dev/godwit/internal/store/sqltx"
	"godwit.dev/godwit/internal/store/storetest"
	"godwit.dev/godwit/internal/testkit/thorough"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open opens the store of a node.
func open(t *testing.T, cfg store.Config) (*digestdb.Store, *store.Database) {
	t.Helper()
	cfg.Data, cfg.MinFree = t.TempDir(), 1<<20
	lite, pg := digestdb.Migrations()
	cfg.Tables = []store.Tables{{Module: digest.Module, SQLite: lite, Postgres: pg}}
	s, err := store.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	db := s.Database(digest.Module)
	return digestdb.New(db, func() string { return ulid.Make().String() }), db
}

// leavesNothing checks that no content is kept that nobody needs.
func leavesNothing(t *testing.T, db *store.Database) {
	t.Helper()
	err := db.Read(t.Context(), "count", func(ctx context.Context, tx sqltx.Tx) error {
		n, err := sqltx.Collect(ctx, tx, sqltx.One[int64], "SELECT count(*) FROM body")
		if err == nil && n[0] != 0 {
			t.Errorf("%d contents are left", n[0])
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

const items, manyItems = 600, 20_000

func TestDigestsInFiles(t *testing.T) {
	t.Parallel()
	s, db := open(t, store.Config{})
	storetest.Digests(t, s)
	storetest.DigestsTogether(t, thorough.Rounds(items, manyItems), s)
	leavesNothing(t, db)
}

func TestDigestsInPostgreSQL(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	a, db := open(t, store.Config{Node: "a", Postgres: url})
	b, _ := open(t, store.Config{Node: "b", Postgres: url})
	storetest.Digests(t, a)
	storetest.DigestsTogether(t, thorough.Rounds(items, manyItems), a, b)
	leavesNothing(t, db)
}

func TestDigestsMoveToPostgreSQL(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	s, err := store.Open(t.Context(), store.Config{Data: data, MinFree: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	for _, key := range []string{"left", "waits"} {
		l := &digest.Lot{App: "shop", ID: key, To: []string{"ann", "bob"}, Category: "c", Key: key, Created: now, Sum: []byte{0, 255}, Body: []byte("body"), Window: time.Hour, Most: 10}
		if err := s.Digests.Gather(t.Context(), []*digest.Lot{l}, now); err != nil {
			t.Fatal(err)
		}
		if key == "left" {
			due, _, err := s.Digests.Due(t.Context(), now.Add(time.Hour), 10)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Digests.Seal(t.Context(), due, now); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Digests.End(t.Context(), due, digest.Sent, now); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	url := pgtest.Database(t)
	if _, err := store.MoveToPostgres(t.Context(), store.MoveConfig{Data: data, Postgres: url}); err != nil {
		t.Fatal(err)
	}
	moved, _ := open(t, store.Config{Node: "a", Postgres: url})
	for id, want := range map[string]notification.Status{"left": notification.Digested, "waits": notification.Gathered} {
		if got, err := moved.Lookup(t.Context(), "shop", id, "", now); err != nil || len(got) != 2 || got[1].Status != want || got[1].To != "bob" {
			t.Errorf("%s: %+v, %v; want it to be %s", id, got, err, want)
		}
	}
	due, _, err := moved.Due(t.Context(), now.Add(time.Hour), 10)
	if err != nil || len(due) != 2 {
		t.Fatalf("%d are due, %v", len(due), err)
	}
	leaving, err := moved.Seal(t.Context(), due, now)
	if err != nil || len(leaving) != 2 || len(leaving[0].Newest) != 1 || string(leaving[0].Newest[0].Body) != "body" {
		t.Errorf("leaving: %+v, %v", leaving, err)
	}
}
