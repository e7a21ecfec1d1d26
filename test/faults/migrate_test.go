// These tests prove that a data folder is moved completely into PostgreSQL, whatever interrupts the move.
package faults

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/store"
	"godwit.dev/godwit/internal/store/postgres/pgtest"
	"godwit.dev/godwit/test/blackbox"
)

// ofFolder returns the contents of a data folder.
func ofFolder(t testing.TB, data string) contents {
	t.Helper()
	s, err := store.Open(t.Context(), store.Config{Data: data})
	noError(t, err)
	defer s.Close()
	return readStores(t, s)
}

// ofDatabase opens the stores in a database.
func ofDatabase(t testing.TB, url string) *store.Stores {
	t.Helper()
	s, err := store.Open(t.Context(), store.Config{Postgres: url, Node: "one"})
	noError(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

func migrateFolder(t testing.TB, data, url string) (string, error) {
	t.Helper()
	out, err := migrateCommand(t, data, url).CombinedOutput()
	return string(out), err
}

func migrateCommand(t testing.TB, data, url string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), blackbox.Binary(t, false), "migrate", "sqlite-to-postgres", data)
	cmd.Env = append(os.Environ(), "GODWIT_POSTGRES="+url)
	return cmd
}

func connectDatabase(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	noError(t, err)
	t.Cleanup(func() { c.Close(context.Background()) })
	return c
}

func TestAFolderKilledTwiceOnItsWayIsThereWhole(t *testing.T) {
	blackbox.Long(t)
	stubs, waiting := manyStubs(t)
	url := pgtest.Database(t)
	data := filledLong(t, stubs, waiting)
	want := ofFolder(t, data)
	for _, rows := range []int{stubs / 4, stubs / 2} {
		killInASlice(t, data, url, rows)
		if s, err := store.Open(t.Context(), store.Config{Postgres: url, Node: "one"}); err == nil {
			t.Error("a server may use a database that is being filled")
			s.Close()
		}
	}
	began := time.Now()
	out, err := migrateFolder(t, data, url)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("the last run took %s", time.Since(began))
	says(t, out, fmt.Sprintf("%d notifications", stubs+waiting+36), "the database has what")
	s := ofDatabase(t, url)
	sameContents(t, readStores(t, s), want)
	goesOn(t, s.Mailbox)

	if out, err = migrateFolder(t, data, url); err != nil {
		t.Errorf("again: %v\n%s", err, out)
	}
	says(t, out, "was copied before")
}

// killerLooks is how long the killer of a copy waits between two looks at it: not so short that it takes the processor from the copy.
const killerLooks = 2 * time.Millisecond

// killInASlice kills a copy once that many rows are stored, during the next slice, which is then rolled back.
func killInASlice(t testing.TB, data, url string, rows int) {
	t.Helper()
	cmd := migrateCommand(t, data, url)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	noError(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	defer func() {
		_ = cmd.Process.Kill()
		<-ended
	}()
	alive := func() {
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("it ended before it was killed: %v\n%s", err, out.String())
		default:
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	looks := connectDatabase(t, url)
	until := func(query string) {
		for yes := false; !yes; time.Sleep(killerLooks) {
			alive()
			noError(t, looks.QueryRow(ctx, query).Scan(&yes))
		}
	}
	until("SELECT EXISTS (SELECT FROM pg_tables WHERE schemaname = 'godwit_move' AND tablename = 'part')")
	// The copy records each slice in a table that is locked here: it goes on for one slice whenever the lock passes from one connection to the
	// other, which waits behind the copy. So no stall of this process lets it go further.
	holder, next := connectDatabase(t, url), connectDatabase(t, url)
	const lock, waiting = "BEGIN; LOCK TABLE godwit_move.part IN EXCLUSIVE MODE", "SELECT count(*) = %d FROM pg_locks WHERE relation = 'godwit_move.part'::regclass AND NOT granted"
	_, err := holder.Exec(ctx, lock)
	noError(t, err)
	for {
		until(fmt.Sprintf(waiting, 1)) // the slice is written, but recording it must wait
		var n int
		var done bool
		noError(t, holder.QueryRow(ctx, "SELECT coalesce(sum(rows), 0), coalesce(bool_or(name = 'notifications' AND done), false) FROM godwit_move.part").Scan(&n, &done))
		if done {
			t.Fatalf("it was faster than its killer: more has to be copied\n%s", out.String())
		}
		if n >= rows {
			break
		}
		locked := make(chan error, 1)
		go func() {
			_, err := next.Exec(ctx, lock)
			locked <- err
		}()
		until(fmt.Sprintf(waiting, 2))
		_, err = holder.Exec(ctx, "ROLLBACK")
		noError(t, err)
		noError(t, <-locked)
		holder, next = next, holder
	}
	noError(t, cmd.Process.Kill())
	_, err = holder.Exec(ctx, "ROLLBACK")
	noError(t, err)
}

// goesOn publishes to all existing recipients: each copy gets the next seq, and an existing id is a duplicate.
func goesOn(t testing.TB, m mailbox.Store) {
	t.Helper()
	for _, app := range appNames {
		to := []string{"ada", "bob"}
		for i := range 100 {
			to = append(to, fmt.Sprint("r", i))
		}
		seqs := func() (list []uint64) {
			for _, name := range to {
				r, err := m.Recipient(t.Context(), app, name)
				noError(t, err)
				list = append(list, r.LastSeq)
			}
			return list
		}
		before := seqs()
		positions := newest(t, m, app)
		appendTo(t, m, note(app, "after", nil), to...)
		for i, after := range seqs() {
			if before[i] == 0 || after != before[i]+1 {
				t.Errorf("%s of %s went on from %d with %d", to[i], app, before[i], after)
			}
		}
		if p := newest(t, m, app); p <= positions {
			t.Errorf("positions went on from %d with %d", positions, p)
		}
		for _, id := range []string{"plain", "alone"} {
			a := &mailbox.Append{N: note(app, id, nil), To: []string{"ada"}}
			noError(t, m.Append(t.Context(), []*mailbox.Append{a}))
			if r := a.Results[0]; r.Err != nil || !r.Duplicate {
				t.Errorf("%s again: %+v", id, r)
			}
		}
	}
}

func newest(t testing.TB, m mailbox.Store, app string) int64 {
	t.Helper()
	items, _, err := m.History(t.Context(), app, "ada", 0, 1, 0)
	noError(t, err)
	return items[0].Pos
}

func says(t testing.TB, text string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("it does not say %q:\n%s", w, text)
		}
	}
}

func TestADatabaseThatHoldsSomethingElseIsRefused(t *testing.T) {
	data := filled(t, 100)
	used := pgtest.Database(t)
	apps, closing, err := store.OpenApps(t.Context(), store.Config{Postgres: used}, true)
	noError(t, err)
	noError(t, apps.Access.CreateApp(t.Context(), access.App{Name: "green", CreatedAt: time.Now()}))
	noError(t, closing())
	out, err := migrateFolder(t, data, used)
	if err == nil {
		t.Error("a database with an app is taken")
	}
	says(t, out, "not empty", "godwit_app.app", "hint: ")

	another := pgtest.Database(t)
	if out, err := migrateFolder(t, filled(t, 100), another); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err = migrateFolder(t, data, another); err == nil {
		t.Error("a database with another folder is taken")
	}
	says(t, out, "another data folder")
}

func TestMigrationReportsDifferences(t *testing.T) {
	data, url := filled(t, 100), pgtest.Database(t)
	if out, err := migrateFolder(t, data, url); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	c := connectDatabase(t, url)
	for _, one := range []struct{ what, change, back string }{
		{"objects", "UPDATE godwit_object.object SET version = version + 1 WHERE name = 'o3'", "UPDATE godwit_object.object SET version = version - 1 WHERE name = 'o3'"},
		{"recipients", "UPDATE godwit_mailbox.recipient SET last_seq = last_seq - 1 WHERE name = 'bob'", "UPDATE godwit_mailbox.recipient SET last_seq = last_seq + 1 WHERE name = 'bob'"},
		{"deliveries of campaigns", "DELETE FROM godwit_campaign.delivery WHERE outcome = 1", ""},
	} {
		_, err := c.Exec(t.Context(), "UPDATE godwit_move.source SET done_at = 0; "+one.change, pgx.QueryExecModeSimpleProtocol)
		noError(t, err)
		out, err := migrateFolder(t, data, url)
		if err == nil {
			t.Errorf("changed %s are not noticed", one.what)
		}
		says(t, out, one.what+" differ")
		_, err = c.Exec(t.Context(), one.back, pgx.QueryExecModeSimpleProtocol)
		noError(t, err)
	}
}

// The log has changes that the killed server has not written to its table of recipients.
func TestAFolderOfAKilledServerIsCopiedOnceItHasEnded(t *testing.T) {
	s := blackbox.Start(t, blackbox.Dev())
	for i := range 3 {
		if out, err := s.Run("publish", "ada", "--title", "T", "--id", fmt.Sprint("n", i), "--url", s.URL("")); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	url := pgtest.Database(t)
	out, err := migrateFolder(t, s.Dir, url)
	if err == nil {
		t.Error("the folder of a running server is copied")
	}
	says(t, out, "in use by another server", "hint: stop the server")
	s.Kill()
	if out, err = migrateFolder(t, s.Dir, url); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	says(t, out, "3 notifications")
	s = blackbox.Start(t, blackbox.Dev(), blackbox.In(s.Dir), blackbox.Env("GODWIT_POSTGRES="+url))
	if out, err = s.Run("listen", "ada", "-n", "2", "--timeout", "1m", "--url", s.URL("")); err != nil {
		t.Errorf("listen: %v", err)
	}
	says(t, out, "n0", "n1")
	says(t, metrics(t, s), "godwit_postgres_up 1", `godwit_postgres_horizon_seconds{holder="slot"} 0`, "godwit_postgres_copies_total 3")
	if code := s.Stop(); code != 0 {
		t.Errorf("the server exited with %d", code)
	}
	m := ofDatabase(t, url).Mailbox
	appendTo(t, m, note(access.DevApp, "after", nil), "ada")
	res, err := m.Pending(t.Context(), []mailbox.PendingQuery{{App: access.DevApp, Recipient: "ada", Limit: 10}})
	noError(t, err)
	if items := res[0].Items; len(items) != 2 || items[0].N.ID != "n2" || items[1].Seq != 4 || items[1].N.ID != "after" {
		t.Errorf("%d wait: %+v", len(items), items)
	}
}

func metrics(t testing.TB, s *blackbox.Server) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL("/metrics"), nil)
	noError(t, err)
	resp, err := http.DefaultClient.Do(req)
	noError(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	noError(t, err)
	http.DefaultClient.CloseIdleConnections()
	return string(b)
}
