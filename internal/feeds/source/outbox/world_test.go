package outbox_test

import (
	"context"
	"database/sql"
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"
	lite "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"godwit.dev/godwit/internal/access/urlguard"
	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/feeds/source/outbox"
	"godwit.dev/godwit/internal/feeds/source/sourcetest"
	"godwit.dev/godwit/internal/store/postgres/pgtest"
	"godwit.dev/godwit/internal/testkit/eventually"
	"godwit.dev/godwit/internal/testkit/mariaserver"
	"godwit.dev/godwit/internal/testkit/mariaserver/mariatest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// database is a database with an outbox.
type database interface {
	exec(t *testing.T, text string)
	// begin runs a statement in a transaction that is ended by the returned function.
	begin(t *testing.T, text string) (commit func())
	count(t *testing.T, query string) string
}

type pgDB struct{ url string }

func (d pgDB) conn(t *testing.T) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), d.url)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (d pgDB) exec(t *testing.T, text string) {
	t.Helper()
	c := d.conn(t)
	defer c.Close(context.Background())
	if _, err := c.PgConn().Exec(t.Context(), text).ReadAll(); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

func (d pgDB) begin(t *testing.T, text string) func() {
	t.Helper()
	c := d.conn(t)
	if _, err := c.PgConn().Exec(t.Context(), "BEGIN; "+text).ReadAll(); err != nil {
		t.Fatal(err)
	}
	return func() {
		defer c.Close(context.Background())
		if _, err := c.PgConn().Exec(t.Context(), "COMMIT").ReadAll(); err != nil {
			t.Error(err)
		}
	}
}

func (d pgDB) count(t *testing.T, query string) (n string) {
	t.Helper()
	c := d.conn(t)
	defer c.Close(context.Background())
	r := c.PgConn().ExecParams(t.Context(), query, nil, nil, nil, nil).Read()
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	return string(r.Rows[0][0])
}

type myDB struct{ *sql.DB }

func (d myDB) exec(t *testing.T, text string) {
	t.Helper()
	if _, err := d.ExecContext(t.Context(), text); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

func (d myDB) begin(t *testing.T, text string) func() {
	t.Helper()
	tx, err := d.BeginTx(t.Context(), nil)
	if err == nil {
		_, err = tx.ExecContext(t.Context(), text)
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := tx.Commit(); err != nil {
			t.Error(err)
		}
	}
}

func (d myDB) count(t *testing.T, query string) (n string) {
	t.Helper()
	if err := d.QueryRowContext(t.Context(), query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

type liteDB struct{ path string }

func (d liteDB) do(t *testing.T, f func(c *lite.Conn) error) {
	t.Helper()
	c, err := lite.OpenConn(d.path, lite.OpenReadWrite, lite.OpenCreate)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := f(c); err != nil {
		t.Fatal(err)
	}
}

func (d liteDB) exec(t *testing.T, text string) {
	t.Helper()
	d.do(t, func(c *lite.Conn) error {
		statements, _, _ := strings.Cut(text, "\n\n--") // which are comments to the end
		return sqlitex.ExecuteTransient(c, statements, nil)
	})
}

func (liteDB) begin(t *testing.T, _ string) func() {
	t.Skip("SQLite has one writer at a time")
	return nil
}

func (d liteDB) count(t *testing.T, query string) (n string) {
	t.Helper()
	d.do(t, func(c *lite.Conn) error {
		return sqlitex.ExecuteTransient(c, query, &sqlitex.ExecOptions{ResultFunc: func(s *lite.Stmt) error { n = s.ColumnText(0); return nil }})
	})
	return n
}

// world is a database with a service that reads its outbox.
type world struct {
	*sourcetest.World
	db    database
	maria *mariatest.Server
	name  string // of its database
	ours  bool   // files belong to a Godwit
}

// each runs a test for all kinds at once.
func each(t *testing.T, test func(w *world)) {
	t.Helper()
	t.Parallel()
	for _, kind := range []string{outbox.PostgreSQL, outbox.MySQL, outbox.SQLite} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			test(newWorld(t, kind))
		})
	}
}

func newWorld(t *testing.T, kind string) *world {
	t.Helper()
	return newWorldOn(t, kind, nil)
}

// newWorldOn makes a world on a MariaDB of the test's own; nil: on a new database of the shared server.
func newWorldOn(t *testing.T, kind string, server *mariatest.Server) *world {
	t.Helper()
	w := &world{}
	w.World = sourcetest.NewWorld(t, kind, outbox.Kinds(func(string) bool { return w.ours })[kind])
	switch kind {
	case outbox.PostgreSQL:
		url := pgtest.Database(t)
		w.db = pgDB{url}
		setting.Put(w.Values, outbox.FieldURL, url)
	case outbox.MySQL:
		if w.maria, w.name = server, "shop"; server == nil {
			w.maria, w.name = mariatest.Database(t)
		}
		db, err := w.maria.Open(w.name)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		w.db = myDB{db}
		setting.Put(w.Values, outbox.FieldURL, w.maria.Of(w.name))
		setting.Put(w.Values, outbox.FieldPassword, mariaserver.Password)
		setting.Put(w.Values, outbox.FieldCA, w.maria.CA)
	default:
		path := filepath.Join(t.TempDir(), "shop.db")
		w.db = liteDB{path}
		w.db.exec(t, "PRAGMA journal_mode = WAL")
		setting.Put(w.Values, outbox.FieldPath, path)
	}
	w.db.exec(t, outbox.Kinds(nil)[kind].(source.Schemer).Schema())
	return w
}

// opens connects to a table, and returns why it cannot.
func (w *world) opens(table string) error {
	w.Helper()
	v := maps.Clone(w.Values)
	setting.Put(v, outbox.FieldTable, table)
	f, err := outbox.Kinds(func(string) bool { return false })[w.Name].Open(w.Context(), source.Target{App: "shop", Name: w.Name, Values: v, Targets: urlguard.All})
	if err == nil {
		f.Close()
	}
	return err
}

// insert writes rows in one transaction.
func (w *world) insert(bodies ...string) {
	w.Helper()
	w.db.exec(w.T, "INSERT INTO godwit_outbox (body) VALUES ('"+strings.Join(bodies, "'), ('")+"')")
}

// rows waits until a query counts so many rows.
func (w *world) rows(want, query string) {
	w.Helper()
	if !eventually.Holds(func() bool { return w.db.count(w.T, query) == want }) {
		w.Fatalf("%s is %s, want %s; %+v", query, w.db.count(w.T, query), want, w.Info())
	}
}
