package outbox_test

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"
	lite "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/feeds/source/outbox"
	"godwit.dev/godwit/internal/feeds/source/sourcetest"
	"godwit.dev/godwit/internal/messaging/pubsub"
	"godwit.dev/godwit/internal/notify/delivery"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/objects/object"
	"godwit.dev/godwit/internal/server/httpapi/backend"
	"godwit.dev/godwit/internal/store/postgres/pgtest"
	"godwit.dev/godwit/internal/testkit/eventually"
	"godwit.dev/godwit/internal/testkit/mariaserver"
	"godwit.dev/godwit/internal/testkit/mariaserver/mariatest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// kept is what was published and put.
type kept struct {
	mu   sync.Mutex
	got  []string
	ids  map[string]int
	full map[string]bool // recipients whose mailbox is full
	once func()          // runs during the next publish
}

func (k *kept) Publish(_ context.Context, _ string, drafts []*notification.Draft) []delivery.Result {
	k.mu.Lock()
	defer k.mu.Unlock()
	if once := k.once; once != nil {
		k.once = nil
		once()
	}
	results := make([]delivery.Result, len(drafts))
	for i, d := range drafts {
		if len(d.To) == 0 {
			results[i].Err = notification.BadField("to", "is required")
			continue
		}
		results[i] = delivery.Result{ID: d.ID, Copies: []delivery.Copy{{To: d.To[0], Duplicate: k.ids[d.ID] > 0}}}
		if k.full[d.To[0]] {
			results[i].Err = mailbox.ErrFull
			continue
		}
		if k.ids[d.ID]++; k.ids[d.ID] == 1 {
			k.got = append(k.got, strings.TrimSpace(fmt.Sprintf("%s %s %s", d.To[0], d.Content.Title, d.Content.Data)))
		}
	}
	return results
}

func (k *kept) Put(_ context.Context, _ string, key object.Key, p *object.Put) (object.State, bool, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	what := string(p.Payload)
	if p.Unknown {
		what = "is unknown"
	}
	k.got = append(k.got, fmt.Sprintf("%s/%s %s", key.Group, key.Object, what))
	return object.State{}, true, nil
}

func (*kept) Names(context.Context, string, string, string, int) ([]string, string, error) {
	return nil, "", nil
}

func (k *kept) fill(to string, full bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.full[to] = full
}

type topics struct{}

func (topics) Publish(context.Context, string, *pubsub.Message) error { return nil }

// settings hold one source.
type settings struct{ one *source.Source }

func (s *settings) All(context.Context) (list []source.Source, err error) {
	if s.one != nil {
		list = append(list, *s.one)
	}
	return list, nil
}

func (s *settings) Update(_ context.Context, app, name string, change func(*source.Source, int) error) error {
	s.one = &source.Source{App: app, Name: name}
	return change(s.one, 0)
}

func (*settings) Delete(context.Context, string, string) (bool, error) { return true, nil }

func (*settings) Watch(ctx context.Context, _ func()) error {
	<-ctx.Done()
	return nil
}

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
	*testing.T
	kind    string
	db      database
	maria   *mariatest.Server
	name    string // of its database
	values  setting.Values
	kept    *kept
	records *sourcetest.Records
	service *source.Service
	ours    bool // files belong to a Godwit
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
	w := &world{T: t, kind: kind, values: setting.Values{}, kept: &kept{ids: make(map[string]int), full: make(map[string]bool)}, records: sourcetest.NewRecords()}
	switch kind {
	case outbox.PostgreSQL:
		url := pgtest.Database(t)
		w.db = pgDB{url}
		setting.Put(w.values, outbox.FieldURL, url)
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
		setting.Put(w.values, outbox.FieldURL, w.maria.Of(w.name))
		setting.Put(w.values, outbox.FieldPassword, mariaserver.Password)
		setting.Put(w.values, outbox.FieldCA, w.maria.CA)
	default:
		path := filepath.Join(t.TempDir(), "shop.db")
		w.db = liteDB{path}
		w.db.exec(t, "PRAGMA journal_mode = WAL")
		setting.Put(w.values, outbox.FieldPath, path)
	}
	w.db.exec(t, outbox.Kinds(nil)[kind].(source.Schemer).Schema())
	return w
}

// opens connects to a table, and returns why it cannot.
func (w *world) opens(table string) error {
	w.Helper()
	v := maps.Clone(w.values)
	setting.Put(v, outbox.FieldTable, table)
	f, err := outbox.Kinds(func(string) bool { return false })[w.kind].Open(w.Context(), source.Target{App: "shop", Name: w.kind, Values: v, Private: true})
	if err == nil {
		f.Close()
	}
	return err
}

// start sets the source up and reads it.
func (w *world) start(private bool) {
	w.Helper()
	s, err := source.New(w.Context(), source.Config{
		Store: &settings{}, Records: w.records, Publisher: w.kept, Objects: w.kept, Topics: topics{}, Read: backend.ReadEntries,
		Kinds: outbox.Kinds(func(string) bool { return w.ours }), Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		w.Fatal(err)
	}
	if _, _, err := s.Set(w.Context(), "shop", w.kind, source.Change{Values: w.values, Private: private}); err != nil {
		w.Fatal(err)
	}
	w.service = s
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = s.Run(ctx) }()
	w.Cleanup(func() { cancel(); <-ended })
}

// insert writes rows in one transaction.
func (w *world) insert(bodies ...string) {
	w.Helper()
	w.db.exec(w.T, "INSERT INTO godwit_outbox (body) VALUES ('"+strings.Join(bodies, "'), ('")+"')")
}

func (w *world) info() source.Info {
	w.Helper()
	i, err := w.service.Get("shop", w.kind)
	if err != nil {
		w.Fatal(err)
	}
	return i
}

// becomes waits until the source has a state and says a text.
func (w *world) becomes(state source.State, says string) {
	w.Helper()
	if !eventually.Holds(func() bool { i := w.info(); return i.State == state && strings.Contains(i.Error+i.Detail, says) }) {
		w.Fatalf("the source is not %s with %q but %+v", state, says, w.info())
	}
}

// gets waits until exactly these have come, in order, and returns them to be none.
func (w *world) gets(want ...string) {
	w.Helper()
	got := func() []string {
		w.kept.mu.Lock()
		defer w.kept.mu.Unlock()
		return slices.Clone(w.kept.got)
	}
	if !eventually.Holds(func() bool { return len(got()) >= len(want) }) || !slices.Equal(got(), want) {
		w.Fatalf("got\n%s\nwant\n%s\n%+v", strings.Join(got(), "\n"), strings.Join(want, "\n"), w.info())
	}
	w.kept.mu.Lock()
	w.kept.got = nil
	w.kept.mu.Unlock()
}

// rows waits until a query counts so many rows.
func (w *world) rows(want, query string) {
	w.Helper()
	if !eventually.Holds(func() bool { return w.db.count(w.T, query) == want }) {
		w.Fatalf("%s is %s, want %s; %+v", query, w.db.count(w.T, query), want, w.info())
	}
}
