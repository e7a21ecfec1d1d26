package postgres_test

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/feeds/source/postgres"
	"godwit.dev/godwit/internal/feeds/source/sourcetest"
	"godwit.dev/godwit/internal/objects/object"
	"godwit.dev/godwit/internal/store/postgres/pgtest"
	"godwit.dev/godwit/internal/testkit/eventually"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a PostgreSQL with a service that reads it.
type world struct {
	*sourcetest.World
	pg *pgtest.Server
}

var logical = pgtest.Options{Settings: map[string]string{"wal_level": "logical", "max_wal_senders": "8", "max_replication_slots": "8", "max_slot_wal_keep_size": "64MB"}}

func newWorld(t *testing.T) *world {
	t.Helper()
	return worldOn(t, pgtest.Start(t, logical))
}

// worldOn makes a world on a server that runs.
func worldOn(t *testing.T, pg *pgtest.Server) *world {
	t.Helper()
	w := &world{sourcetest.NewWorld(t, postgres.Name, postgres.Kind{}), pg}
	w.PutsApart()
	w.Run()
	return w
}

// set sets the source up; fields are names and values.
func (w *world) set(fields ...any) {
	w.Helper()
	v := setting.Values{postgres.FieldURL: setting.JSON(w.pg.URL())}
	for i := 0; i < len(fields); i += 2 {
		v[fields[i].(string)] = setting.JSON(fields[i+1])
	}
	w.Set(source.Change{Values: v, Private: true})
}

// sql runs statements, each in a transaction of its own, unless it begins one.
func (w *world) sql(statements ...string) {
	w.Helper()
	w.in(w.pg.URL(), statements...)
}

// in runs statements in a database.
func (w *world) in(url string, statements ...string) {
	w.Helper()
	c, err := pgx.Connect(w.Context(), url)
	if err != nil {
		w.Fatal(err)
	}
	defer c.Close(context.Background())
	for _, s := range statements {
		if _, err := c.PgConn().Exec(w.Context(), s).ReadAll(); err != nil {
			w.Fatalf("%s: %v", s, err)
		}
	}
}

// drops drops a replication slot once the server has noticed that its reader is gone.
func (w *world) drops(slot string) {
	w.Helper()
	if !eventually.Holds(func() bool {
		return w.text("SELECT count(*)::text FROM pg_replication_slots WHERE active AND slot_name = '"+slot+"'") == "0"
	}) {
		w.Fatalf("the slot %s stays in use", slot)
	}
	w.sql("SELECT pg_drop_replication_slot('" + slot + "')")
}

// emits is a statement that emits a message for the app shop.
func emits(body string) string {
	return "SELECT pg_logical_emit_message(true, 'godwit.shop', '" + body + "');"
}

// gets calls Gets. Notifications without data may end with a space here.
func (w *world) gets(want ...string) {
	w.Helper()
	for i := range want {
		want[i] = strings.TrimSpace(want[i])
	}
	w.Gets(want...)
}

// object waits until an object has a payload; "" is unknown.
func (w *world) object(name, want string) {
	w.Helper()
	at := func() object.State { return w.Objects()[object.Key{Group: "gates", Object: name}] }
	if !eventually.Holds(func() bool {
		st := at()
		return !st.UpdatedAt.IsZero() && st.Known == (want != "") && string(st.Payload) == want
	}) {
		w.Fatalf("object %s is %+v, want %q; the source is %+v", name, at(), want, w.Info())
	}
}

// quarantined returns the reasons of entries in quarantine, newest last.
func (w *world) quarantined() (why []string) {
	w.Helper()
	list, err := w.Records.Quarantine(w.Context(), setting.Place{App: "shop", Name: postgres.Name}, 0, 100)
	if err != nil {
		w.Fatal(err)
	}
	for _, e := range list {
		why = append(why, e.Why+" "+string(e.Text))
	}
	return why
}

// version is that of PostgreSQL.
func (w *world) version() int {
	w.Helper()
	n, err := strconv.Atoi(w.text("SHOW server_version_num"))
	if err != nil {
		w.Fatal(err)
	}
	return n / 10_000
}

// needs skips the test on an older PostgreSQL.
func (w *world) needs(version int) {
	w.Helper()
	if has := w.version(); has < version {
		w.Skipf("PostgreSQL %d is needed, this is %d", version, has)
	}
}

// text returns the only value of a query.
func (w *world) text(query string) (text string) {
	w.Helper()
	c, err := pgx.Connect(w.Context(), w.pg.URL())
	if err != nil {
		w.Fatal(err)
	}
	defer c.Close(context.Background())
	if err := c.QueryRow(w.Context(), query).Scan(&text); err != nil {
		w.Fatalf("%s: %v", query, err)
	}
	return text
}

// refused sets the source up with values and returns the error.
func (w *world) refused(values map[string]any) error {
	v := setting.Values{}
	for name, value := range values {
		v[name] = setting.JSON(value)
	}
	_, _, err := w.Service.Set(w.Context(), "shop", postgres.Name, source.Change{Values: v})
	return err
}

// begins runs a statement in a transaction that stays open until the returned function is called.
func (w *world) begins(url, statement string) (commit func()) {
	w.Helper()
	c, err := pgx.Connect(w.Context(), url)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = c.Close(context.Background()) })
	run := func(sql string) {
		if _, err := c.PgConn().Exec(w.Context(), sql).ReadAll(); err != nil {
			w.Fatalf("%s: %v", sql, err)
		}
	}
	run("BEGIN; " + statement)
	return func() { run("COMMIT") }
}
