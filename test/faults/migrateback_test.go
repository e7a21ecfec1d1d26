// These tests prove that the database of several nodes is moved completely into the folder of one server, whatever interrupts the move.
package faults

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/store"
	"godwit.dev/godwit/internal/store/postgres/pgtest"
	"godwit.dev/godwit/test/blackbox"
)

// filledDatabase creates a database with data of every kind, stored by a node.
func filledDatabase(t testing.TB, stubs int) (url string) {
	t.Helper()
	url = pgtest.Database(t)
	s, err := store.Open(t.Context(), store.Config{Postgres: url, Node: "one"})
	noError(t, err)
	fillStores(t, s, stubs)
	noError(t, s.Close())
	return url
}

func readDatabase(t testing.TB, url string) contents {
	t.Helper()
	s, err := store.Open(t.Context(), store.Config{Postgres: url, Node: "one"})
	noError(t, err)
	defer s.Close()
	return readStores(t, s)
}

func returnCommand(t testing.TB, url, data string, more ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), blackbox.Binary(t, false), append([]string{"migrate", "postgres-to-sqlite", data}, more...)...)
	cmd.Env = append(os.Environ(), "GODWIT_POSTGRES="+url)
	return cmd
}

func returnToFolder(t testing.TB, url, data string, more ...string) (string, error) {
	t.Helper()
	out, err := returnCommand(t, url, data, more...).CombinedOutput()
	return string(out), err
}

func TestADatabaseIsMovedIntoAFolder(t *testing.T) {
	url, data := filledDatabase(t, 3000), filepath.Join(t.TempDir(), "data")
	want := readDatabase(t, url)
	out, err := returnToFolder(t, url, data)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	says(t, out, fmt.Sprintf("%d notifications", 3036), "digest: item", "inboxes", "has what the database has")
	sameContents(t, ofFolder(t, data), want)
	if out, err = program(t, "doctor", "--verify", "--data", data); err != nil {
		t.Errorf("doctor: %v\n%s", err, out)
	}
	s, err := store.Open(t.Context(), store.Config{Data: data})
	noError(t, err)
	goesOn(t, s.Mailbox)
	checked, err := s.Inboxes.CheckInboxes(t.Context(), func(app, recipient, problem string) { t.Errorf("inbox of %s in %s: %s", recipient, app, problem) })
	if err != nil || checked.Inboxes == 0 {
		t.Errorf("inboxes: %+v, %v", checked, err)
	}
	noError(t, s.Close())

	if out, err = returnToFolder(t, url, data); err != nil {
		t.Errorf("again: %v\n%s", err, out)
	}
	says(t, out, "was copied into")
	readDatabase(t, url) // as a node
	if out, err = returnToFolder(t, url, data); err == nil {
		t.Error("a folder is filled once more")
	}
	says(t, out, "the data folder is not empty")
}

// TestNumbersAreNeverUsedTwiceAfterAMove: the newest endpoint was deleted before the move, and deliveries may still name its number.
func TestNumbersAreNeverUsedTwiceAfterAMove(t *testing.T) {
	url, data := pgtest.Database(t), filepath.Join(t.TempDir(), "data")
	s, err := store.Open(t.Context(), store.Config{Postgres: url, Node: "one"})
	noError(t, err)
	fillApp(t, s, appNames[0])
	newest := registered(t, s, "first")
	noError(t, s.Endpoints.DeleteEndpoint(t.Context(), appNames[0], newest.ID))
	noError(t, s.Close())
	if out, err := returnToFolder(t, url, data); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	s, err = store.Open(t.Context(), store.Config{Data: data})
	noError(t, err)
	defer s.Close()
	if next := registered(t, s, "second"); next.Number <= newest.Number {
		t.Errorf("the endpoint %d was deleted, and the next one is %d", newest.Number, next.Number)
	}
}

// registered registers an endpoint.
func registered(t testing.TB, s *store.Stores, name string) audience.Endpoint {
	t.Helper()
	ep := audience.Endpoint{ID: audience.NewUUID(), App: appNames[0], Channel: push.Webhook, Address: json.RawMessage(`{"url":"https://example.org/` + name + `"}`)}
	noError(t, ep.Check())
	made, err := s.Endpoints.Register(t.Context(), appNames[0], []audience.Registration{{Endpoint: ep, Trusted: true}})
	noError(t, err)
	return made[0].Endpoint
}

func program(t testing.TB, args ...string) (string, error) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), blackbox.Binary(t, false), args...).CombinedOutput()
	return string(out), err
}

// TestThereAndBackIsTheSame moves a folder into a database and back.
func TestThereAndBackIsTheSame(t *testing.T) {
	from, url, data := filled(t, 2000), pgtest.Database(t), filepath.Join(t.TempDir(), "data")
	want := ofFolder(t, from)
	if out, err := migrateFolder(t, from, url); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := returnToFolder(t, url, data, "--json")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	rows := map[string]int64{}
	for line := range strings.Lines(out) {
		var one store.Moved
		noError(t, json.Unmarshal([]byte(line), &one))
		rows[one.What] = one.Rows
	}
	if rows["notifications"] != 2036 || rows["apps"] != 2 {
		t.Errorf("it says %v", rows)
	}
	sameContents(t, ofFolder(t, data), want)
}

// kills is how many times a copy is killed.
const kills = 20

// TestACopyIsKilledAgainAndAgain kills copies into one folder when more and more is copied, and others when they begin and when they compare.
func TestACopyIsKilledAgainAndAgain(t *testing.T) {
	blackbox.Long(t)
	stubs, _ := manyStubs(t)
	url, data := filledDatabase(t, stubs), filepath.Join(t.TempDir(), "data")
	want := readDatabase(t, url)
	killed := 0
	for kill := range kills {
		rows := min(int64(kill)*int64(stubs)/(kills-4), int64(stubs)) // the last of them are killed while they compare
		if !killAt(t, url, data, rows) {
			t.Logf("copy %d was faster than its killer", kill+1)
			noError(t, os.RemoveAll(data))
			continue
		}
		killed++
		if s, err := store.Open(t.Context(), store.Config{Data: data}); err == nil && copied(t, data) >= 0 {
			t.Error("a server may use a folder that is being filled")
			s.Close()
		}
	}
	out, err := returnToFolder(t, url, data)
	if err != nil {
		t.Fatalf("after %d kills: %v\n%s", killed, err, out)
	}
	t.Logf("%d of %d copies were killed", killed, kills)
	sameContents(t, ofFolder(t, data), want)
	if left, _ := filepath.Glob(filepath.Join(data, "*migrate.json*")); len(left) > 0 {
		t.Errorf("it leaves %v", left)
	}
}

// killAt kills a copy once that many rows are noted in the folder, or fails to because it has ended.
func killAt(t testing.TB, url, data string, rows int64) bool {
	t.Helper()
	cmd := returnCommand(t, url, data)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	noError(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for copied(t, data) < rows {
		select {
		case err := <-ended:
			if err != nil {
				t.Fatalf("%v\n%s", err, out.String())
			}
			return false
		case <-time.After(killerLooks):
		}
	}
	_ = cmd.Process.Kill()
	return <-ended != nil
}

// copied returns how many rows are noted in a folder; -1: it is not being filled.
func copied(t testing.TB, data string) (n int64) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(data, "migrate.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return -1
	}
	noError(t, err)
	var notes struct {
		Parts map[string]struct{ Rows int64 }
	}
	noError(t, json.Unmarshal(b, &notes))
	for _, p := range notes.Parts {
		n += p.Rows
	}
	return n
}

func TestAFolderWithAStoreIsRefused(t *testing.T) {
	url, data := filledDatabase(t, 100), filled(t, 100)
	out, err := returnToFolder(t, url, data)
	if err == nil {
		t.Error("a folder with a store is taken")
	}
	says(t, out, "the data folder is not empty", "store.json", "hint: ")

	empty := filepath.Join(t.TempDir(), "data")
	if out, err = returnToFolder(t, pgtest.Database(t), empty); err == nil {
		t.Error("a database that no node has used is copied")
	}
	says(t, out, "has no apps", "hint: look which database")
}

// TestADatabaseIsNotCopiedWhileNodesRun: a node that runs, one that starts meanwhile, and one that ran between two copies.
func TestADatabaseIsNotCopiedWhileNodesRun(t *testing.T) {
	url := pgtest.Database(t)
	s := blackbox.Start(t, blackbox.Dev(), blackbox.Env("GODWIT_POSTGRES="+url, "GODWIT_NODE=first"))
	if out, err := s.Run("publish", "ada", "--title", "T", "--id", "n0", "--url", s.URL("")); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	data := filepath.Join(t.TempDir(), "data")
	out, err := returnToFolder(t, url, data)
	if err == nil {
		t.Error("a database that a node uses is copied")
	}
	says(t, out, "in use by first", "hint: stop all nodes first")
	if code := s.Stop(); code != 0 {
		t.Errorf("the node exited with %d", code)
	}

	// A copy that waits for a table is a copy under way.
	c := connectDatabase(t, url)
	tx, err := c.Begin(t.Context())
	noError(t, err)
	_, err = tx.Exec(t.Context(), "LOCK TABLE godwit_mailbox.device IN ACCESS EXCLUSIVE MODE")
	noError(t, err)
	cmd := returnCommand(t, url, data)
	noError(t, cmd.Start())
	blackbox.Eventually(t, "the copy has begun", func() error { return waits(t, url) })
	if _, err := store.Open(t.Context(), store.Config{Postgres: url, Node: "second"}); err == nil || !strings.Contains(err.Error(), "being copied by godwit migrate postgres-to-sqlite") {
		t.Errorf("a node starts during a copy: %v", err)
	}
	noError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	noError(t, tx.Rollback(t.Context()))

	// The rest of the copy is made anew, with what a node has stored since.
	node := blackbox.Start(t, blackbox.Dev(), blackbox.Env("GODWIT_POSTGRES="+url, "GODWIT_NODE=first"))
	if out, err := node.Run("publish", "ada", "--title", "T", "--id", "n1", "--url", node.URL("")); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if code := node.Stop(); code != 0 {
		t.Errorf("the node exited with %d", code)
	}
	if out, err = returnToFolder(t, url, data); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	says(t, out, "2 notifications")
	if out, err = returnToFolder(t, url, data); err != nil {
		t.Errorf("again: %v\n%s", err, out)
	}
	says(t, out, "was copied into", "before")
	one := blackbox.Start(t, blackbox.Dev(), blackbox.In(data))
	out, err = one.Run("listen", "ada", "-n", "2", "--timeout", "1m", "--url", one.URL(""))
	if err != nil {
		t.Errorf("listen: %v", err)
	}
	says(t, out, "n0", "n1")
	if code := one.Stop(); code != 0 {
		t.Errorf("the server exited with %d", code)
	}
}

// waits returns an error unless somebody waits for a table.
func waits(t testing.TB, url string) error {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	noError(t, err)
	defer c.Close(t.Context())
	waiting := false
	err = c.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND relation = 'godwit_mailbox.device'::regclass)").Scan(&waiting)
	if err == nil && !waiting {
		err = errors.New("nobody waits")
	}
	return err
}

// TestACopyIntoADatabaseIsKilledBeforeItCopies: its schemas are there, and maybe a server's trace; it begins again.
func TestACopyIntoADatabaseIsKilledBeforeItCopies(t *testing.T) {
	blackbox.Long(t)
	data, url := filled(t, 100), pgtest.Database(t)
	want := ofFolder(t, data)
	schemas := []string{"godwit_app", "godwit_event", "godwit_object", "godwit_campaign", "godwit_mailbox", "godwit_module_sources", "godwit_module_digest", "godwit_move"}
	for _, schema := range schemas {
		killWhenMade(t, data, url, schema)
	}
	out, err := migrateFolder(t, data, url)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	s := ofDatabase(t, url)
	sameContents(t, readStores(t, s), want)
}

// killWhenMade kills a copy when a schema is there. A faster copy copies everything; the copies after it find that.
func killWhenMade(t testing.TB, data, url, schema string) {
	t.Helper()
	looks := connectDatabase(t, url)
	cmd := migrateCommand(t, data, url)
	noError(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for made := false; !made; time.Sleep(killerLooks) {
		noError(t, looks.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)", schema).Scan(&made))
		select {
		case err := <-ended:
			noError(t, err)
			return
		default:
		}
	}
	_ = cmd.Process.Kill()
	<-ended
}
