package sources

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/store/postgres/pgtest"
	"godwit.dev/godwit/test/blackbox"
)

// reported is a PostgreSQL with a server that reads its log, for what other readers of logs are reported to do wrong.
type reported struct {
	*testing.T
	db  *pgtest.Server
	srv *blackbox.Server
	api *blackbox.API
}

func newReported(t *testing.T, settings map[string]string) *reported {
	t.Helper()
	all := map[string]string{"wal_level": "logical"}
	for name, value := range settings {
		all[name] = value
	}
	r := &reported{T: t, db: pgtest.Start(t, pgtest.Options{Settings: all})}
	r.srv = blackbox.Start(t, append([]blackbox.Option{blackbox.Dev()}, serve...)...)
	r.api = r.srv.API()
	return r
}

// do runs statements, each on its own, and returns the first column of the last row.
func (r *reported) do(url string, statements ...string) (last string) {
	r.Helper()
	c, err := pgx.Connect(r.Context(), url)
	if err != nil {
		r.Fatal(err)
	}
	defer c.Close(context.Background())
	for _, s := range statements {
		results, err := c.PgConn().Exec(r.Context(), s).ReadAll()
		if err != nil {
			r.Fatalf("%.200s: %v", s, err)
		}
		for _, one := range results {
			for _, row := range one.Rows {
				last = string(row[0])
			}
		}
	}
	return last
}

func (r *reported) sql(statements ...string) string {
	r.Helper()
	return r.do(r.db.URL(), statements...)
}

// put sets the source up.
func (r *reported) put(tables ...map[string]any) {
	r.Helper()
	r.api.Call(r.T, http.MethodPut, "/v1/sources/postgres", map[string]any{"url": r.db.URL(), "tables": tables}, nil)
}

// becomes waits for a state of the source, and for a text of what it says.
func (r *reported) becomes(state, says string) {
	r.Helper()
	var one struct {
		State, Detail string
		Error         string `json:"last_error"`
	}
	blackbox.Eventually(r.T, "the source is "+state, func() error {
		if r.api.Call(r.T, http.MethodGet, "/v1/sources/postgres", nil, &one); one.State != state || !strings.Contains(one.Detail+one.Error, says) {
			return fmt.Errorf("it is %+v", one)
		}
		return nil
	})
}

// gets receives notifications of ann with these titles and data.
func (r *reported) gets(want ...string) {
	r.Helper()
	l, err := r.srv.Dial(r.Context(), "ws", blackbox.Hello{App: "demo", Recipient: "ann"})
	if err != nil {
		r.Fatal(err)
	}
	defer l.Cut()
	for _, one := range want {
		n, err := blackbox.NextNotification(r.Context(), l)
		if err != nil {
			r.Fatal(err)
		}
		if got := strings.TrimSpace(n.Title + " " + string(n.Data)); got != one {
			r.Errorf("got %s, want %s", got, one)
		}
		if err := l.Ack(r.Context(), n.ID); err != nil {
			r.Fatal(err)
		}
	}
}

func says(title string) string {
	return `SELECT pg_logical_emit_message(true, 'godwit.demo', '{"to":"ann","title":"` + title + `"}');`
}

func TestValuesThatOtherLanguagesLackAreRead(t *testing.T) {
	t.Parallel()
	r := newReported(t, nil)
	r.sql("CREATE TABLE odd (id int PRIMARY KEY, who text, at timestamptz, day date, n numeric, f float8)")
	r.put(map[string]any{"table": "odd", "recipient": "who", "title": "Odd", "data": []string{"at", "day", "n", "f"}})
	r.becomes("running", "")
	r.sql("INSERT INTO odd VALUES (1, 'ann', 'infinity', '-infinity', 'NaN', 'Infinity'), (2, 'ann', '0044-03-15 12:00+00 BC', '294276-12-31', 1e100, 'NaN')")
	r.gets(`Odd {"at":"infinity","day":"-infinity","n":"NaN","f":"Infinity"}`,
		`Odd {"at":"`+r.sql("SELECT at::text FROM odd WHERE id = 2")+`","day":"294276-12-31","n":1`+strings.Repeat("0", 100)+`,"f":"NaN"}`)
}

func TestWhatASavepointTakesBackIsNotSent(t *testing.T) {
	t.Parallel()
	r := newReported(t, nil)
	r.put()
	r.becomes("running", "")
	r.sql("BEGIN;"+says("1")+"SAVEPOINT s;"+says("never")+"ROLLBACK TO s;"+says("2")+"COMMIT",
		"DO $$ BEGIN PERFORM pg_logical_emit_message(true, 'godwit.demo', '{\"to\":\"ann\",\"title\":\"never\"}'); RAISE 'x'; EXCEPTION WHEN OTHERS THEN PERFORM pg_logical_emit_message(true, 'godwit.demo', '{\"to\":\"ann\",\"title\":\"3\"}'); END $$",
		says("end"))
	r.gets("1", "2", "3", "end")
}

// PostgreSQL ends connections that are silent for wal_sender_timeout, which some operators set to a few seconds.
func TestALargeTransactionKeepsItsConnectionThoughPostgreSQLIsImpatient(t *testing.T) {
	t.Parallel()
	r := newReported(t, map[string]string{"wal_sender_timeout": "1s"})
	r.put()
	r.becomes("running", "")
	const reader = "SELECT pid FROM pg_stat_replication"
	before := r.sql(reader)
	r.sql(`SELECT pg_logical_emit_message(true, 'godwit.demo', '{"put":{"group":"gates","object":"g","payload":' || i || '}}') FROM generate_series(1, 60000) i`, says("end"))
	r.gets("end")
	var gate struct{ Payload int }
	if r.api.Call(t, http.MethodGet, "/v1/objects/gates/g", nil, &gate); gate.Payload != 60_000 {
		t.Errorf("the object has %d", gate.Payload)
	}
	if after := r.sql(reader); after != before {
		t.Errorf("process %q read the log, and now %q does", before, after)
	}
}

func TestFilesOfTheLogAreRemovedThoughOnlyAnotherDatabaseWrites(t *testing.T) {
	t.Parallel()
	r := newReported(t, map[string]string{"min_wal_size": "32MB", "max_wal_size": "48MB"})
	r.put()
	r.becomes("running", "")
	other := r.db.Database(t)
	r.do(other, "CREATE TABLE other (a text); ALTER TABLE other ALTER a SET STORAGE EXTERNAL")
	for range 300 {
		r.do(other, "INSERT INTO other SELECT repeat('x', 100000) FROM generate_series(1, 10)")
	}
	blackbox.Eventually(t, "files of the log are removed", func() error {
		if files := r.sql("CHECKPOINT", "SELECT sum(size) / (1024 * 1024) > 96 FROM pg_ls_waldir()"); files == "t" {
			return fmt.Errorf("of 300 MB there are %s MB", r.sql("SELECT sum(size) / (1024 * 1024) FROM pg_ls_waldir()"))
		}
		return nil
	})
}

func TestAnOpenTransactionDelaysTheSlotAndIsSaid(t *testing.T) {
	t.Parallel()
	r := newReported(t, nil)
	r.sql("CREATE TABLE work (a int)")
	c, err := pgx.Connect(t.Context(), r.db.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	run := func(sql string) {
		if _, err := c.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	run("BEGIN")
	run("INSERT INTO work VALUES (1)")
	r.put()
	r.becomes("waiting", "waits until all transactions that run have ended")
	run("COMMIT")
	r.becomes("running", "")
	r.sql(says("1"))
	r.gets("1")
}
