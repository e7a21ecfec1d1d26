package sourcedb_test

import (
	"testing"

	"go.uber.org/goleak"

	"godwit.dev/godwit/internal/store"
	"godwit.dev/godwit/internal/store/postgres/pgtest"
	"godwit.dev/godwit/internal/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func check(t *testing.T, cfg store.Config) {
	t.Parallel()
	cfg.Data = t.TempDir()
	s, err := store.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	storetest.SourceRecords(t, s.SourceRecords, s.EraseApp)
}

func TestRecordsOfSourcesInFiles(t *testing.T) { check(t, store.Config{}) }

func TestRecordsOfSourcesInPostgreSQL(t *testing.T) {
	check(t, store.Config{Node: "a", Postgres: pgtest.Database(t)})
}
