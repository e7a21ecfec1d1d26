package sources

import (
	"path/filepath"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/feeds/source/outbox"
	"godwit.dev/godwit/internal/store/postgres/pgtest"
	"godwit.dev/godwit/internal/testkit/mariaserver"
	"godwit.dev/godwit/internal/testkit/mariaserver/mariatest"
	"godwit.dev/godwit/internal/testkit/thorough"
	"godwit.dev/godwit/test/blackbox"
)

// pgOutbox is a PostgreSQL with an outbox.
type pgOutbox struct {
	inOutbox
	postgres
}

func TestRowsOfOutboxesArriveOnceWhateverIsKilled(t *testing.T) {
	t.Parallel()
	sqliteFile := func(t *testing.T, wal bool) (database, func(), map[string]any) {
		path := filepath.Join(t.TempDir(), "shop.db")
		return file{path: path, wal: wal}, nil, map[string]any{"path": path}
	}
	for name, start := range map[string]func(*testing.T) (db database, restart func(), settings map[string]any){
		outbox.PostgreSQL: func(t *testing.T) (database, func(), map[string]any) {
			thorough.Only(t, "TestRowsOfOutboxesArriveOnceWhateverIsKilled/mysql-outbox")
			db := pgtest.Start(t, pgtest.Options{})
			return pgOutbox{postgres: postgres{db.URL()}}, func() { db.Restart(t) }, map[string]any{"url": db.URL()}
		},
		outbox.MySQL: func(t *testing.T) (database, func(), map[string]any) {
			s := mariatest.Start(t)
			db, err := s.Open("shop")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = db.Close() })
			restart := func() {
				if err := s.Restart(); err != nil {
					t.Error(err)
				}
			}
			return mysql{DB: db}, restart, map[string]any{"url": s.URL(), "password": mariaserver.Password, "ca": s.CA}
		},
		outbox.SQLite: func(t *testing.T) (database, func(), map[string]any) { return sqliteFile(t, false) },
		outbox.SQLite + " with a write-ahead log": func(t *testing.T) (database, func(), map[string]any) { return sqliteFile(t, true) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kind, _, _ := strings.Cut(name, " ")
			db, restart, settings := start(t)
			s := blackbox.Start(t, append([]blackbox.Option{blackbox.Dev()}, serve...)...)
			r := startReaders(t, s)
			o := newOffice(db, thorough.Rounds(600, 50_000), 100, 60, r.received)
			tr := &trial{T: t, source: kind, restart: restart, nodes: []*blackbox.Server{s}, readers: r, office: o}
			tr.prepare(outbox.Kinds(nil)[kind].(source.Schemer).Schema(), settings)
			databases := 0
			if restart != nil { // SQLite runs within the writers
				databases = thorough.Rounds(1, 5)
			}
			tr.run(thorough.Rounds(1, 10), databases)
		})
	}
}
