package cluster

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/store/postgres/pgtest"
	"godwit.dev/godwit/test/blackbox"
)

var (
	sleepFor = flag.Duration("sleep-for", 0, "how long PostgreSQL is stopped (SIGSTOP), at least until nodes say that it is away; 0: not at all")
	holdFor  = flag.Duration("hold-for", 0, "how long a transaction is held open under load, at least for 20 publishes")
)

// holdPace is the pause between two publishes beside an open transaction.
const holdPace = 20 * time.Millisecond

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	db, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close(context.Background()) })
	return db
}

func do(t *testing.T, db *pgx.Conn, sql string) {
	t.Helper()
	if _, err := db.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

// refused returns nil if a node refuses a publish with the error for an unavailable database.
func refused(ctx context.Context, api *blackbox.API, body map[string]any) error {
	a, err := api.Do(ctx, http.MethodPost, "/v1/notifications", body)
	if err != nil {
		return err
	}
	if a.Status != http.StatusServiceUnavailable || a.Header.Get("Retry-After") == "" {
		return fmt.Errorf("a publish is answered with %d: %s", a.Status, a.Body)
	}
	return nil
}

func TestADatabaseThatSleepsIsAwayUntilItWakes(t *testing.T) {
	if *sleepFor == 0 {
		t.Skip("takes long until nodes give up waiting: -sleep-for runs it")
	}
	db := pgtest.Start(t, pgtest.Options{})
	c := Start(t, Options{Nodes: 2, Postgres: func(int) string { return db.URL() }, Serve: []blackbox.Option{blackbox.Plain()}})
	publish(t, c.Nodes[0], "ann", "before")
	db.Stop()
	begun := time.Now()
	for i, n := range c.Nodes {
		blackbox.Eventually(t, Name(i)+" refuses publishes", func() error {
			return refused(t.Context(), n.API(), map[string]any{"id": fmt.Sprint("during-", i), "to": "ann", "title": "x"})
		})
	}
	t.Logf("both nodes had refused a publish %s after their database fell asleep", time.Since(begun).Round(time.Millisecond))
	blackbox.EventuallyWithin(t, *sleepFor+blackbox.Patience, "it has slept long enough", func() error {
		if slept := time.Since(begun); slept < *sleepFor {
			return fmt.Errorf("for %s", slept)
		}
		return nil
	})
	db.Continue()
	for i, n := range c.Nodes {
		blackbox.Eventually(t, Name(i)+" stores again", func() error {
			return n.API().Publish(t.Context(), map[string]any{"id": fmt.Sprint("during-", i), "to": "ann", "title": "x"})
		})
	}
	link := dial(t, c.Nodes[1], "ws", "ann")
	want := map[string]bool{"before": true, "during-0": true, "during-1": true}
	for len(want) > 0 {
		n, err := blackbox.NextNotification(t.Context(), link)
		if err != nil || !want[n.ID] {
			t.Fatalf("got %+v, %v; %v are left", n, err, want)
		}
		delete(want, n.ID)
	}
}

func TestATransactionThatStaysOpenHoldsUpNobody(t *testing.T) {
	t.Parallel()
	blackbox.Long(t)
	url := pgtest.Database(t)
	c := Start(t, Options{Nodes: 2, Postgres: func(int) string { return url }, Serve: []blackbox.Option{blackbox.Plain()}})
	db := connect(t, url)
	link := dial(t, c.Nodes[1], "ws", "ann")
	publish(t, c.Nodes[0], "ann", "before")
	next(t, link, "before")
	do(t, db, "BEGIN ISOLATION LEVEL REPEATABLE READ")
	do(t, db, "SELECT count(*) FROM godwit_mailbox.pending") // now the transaction has a snapshot, and a lock that prevents altering the table
	apis := []*blackbox.API{c.Nodes[0].API(), c.Nodes[1].API()}
	pace := time.NewTicker(holdPace)
	defer pace.Stop()
	begun, n := time.Now(), 0
	for ; n < 20 || time.Since(begun) < *holdFor; n++ {
		<-pace.C
		id := fmt.Sprint("n", n)
		if err := apis[n%2].Publish(t.Context(), map[string]any{"to": "ann", "id": id, "title": id}); err != nil {
			t.Fatal(err)
		}
		next(t, link, id)
	}
	blackbox.Eventually(t, "each node shows the transaction, and what both commit", func() error {
		for _, api := range apis {
			if err := showsStore(t, api); err != nil {
				return err
			}
		}
		return nil
	})
	do(t, db, "COMMIT")
	t.Logf("%d were published, came and were acknowledged while a transaction stayed open for %s", n, time.Since(begun).Round(time.Second))
	blackbox.Eventually(t, "all is acknowledged", func() error {
		n, err := apis[0].Pending(t.Context())
		if err == nil && n > 0 {
			err = fmt.Errorf("%d are pending", n)
		}
		return err
	})
}

func TestANodeRefusesASchemaThatIsNewerThanItKnows(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	c := Start(t, Options{Nodes: 2, Postgres: func(int) string { return url }})
	do(t, connect(t, url), "INSERT INTO godwit_mailbox.migration SELECT 1 + max(version), 'of a later version', 0 FROM godwit_mailbox.migration")
	if code := c.Nodes[1].Stop(); code != 0 {
		t.Errorf("it exited with %d", code)
	}
	if err := c.Nodes[1].Spawn(); err != nil {
		t.Fatal(err)
	}
	if code := c.Nodes[1].Wait(); code != 1 {
		t.Errorf("it exited with %d, want 1", code)
	}
	if log := c.Nodes[1].Log(); !strings.Contains(log, "a newer one has changed it") {
		t.Errorf("it does not say why:\n%s", log)
	}
	publish(t, c.Nodes[0], "ann", "still-here") // the running node continues
}

// TestADatabaseWhoseDiskIsFullRefusesPublishesAndHeals: the disk with Godwit's tables fills up.
func TestADatabaseWhoseDiskIsFullRefusesPublishesAndHeals(t *testing.T) {
	t.Parallel()
	blackbox.Long(t)
	db := pgtest.Start(t, pgtest.Options{})
	disk := blackbox.Disk(t, "64m", "nobody")
	super := connect(t, db.URL())
	do(t, super, "CREATE TABLESPACE small LOCATION '"+disk+"'")
	do(t, super, "ALTER DATABASE postgres SET default_tablespace = small")
	c := Start(t, Options{Nodes: 2, Postgres: func(int) string { return db.URL() }, Serve: []blackbox.Option{blackbox.Plain()}})
	api := c.Nodes[0].API()
	publish(t, c.Nodes[0], "ann", "before")
	filler := filepath.Join(disk, "filler")
	blackbox.Fill(t, filler)
	n := 0
	blackbox.Eventually(t, "a full disk refuses publishes", func() error {
		n++ // publishes that fit on existing pages are still stored
		return refused(t.Context(), api, map[string]any{"id": fmt.Sprint("n", n), "to": "ben", "title": "x", "body": strings.Repeat("x", 4000)})
	})
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	blackbox.Eventually(t, "publishing again once there is space", func() error {
		return api.Publish(t.Context(), map[string]any{"id": "after", "to": "ann", "title": "x"})
	})
	link := dial(t, c.Nodes[1], "ws", "ann")
	next(t, link, "before")
	next(t, link, "after")
}

// showsStore fails unless a node shows who keeps dead rows in the database, and the commits of both nodes.
func showsStore(t *testing.T, api *blackbox.API) error {
	t.Helper()
	var v struct {
		Nodes []struct {
			Commits  *float64 `json:"commits_per_s"`
			Copies   *float64 `json:"copies_per_commit"`
			Queue    *int     `json:"store_queue"`
			Answered *int64   `json:"store_answered_ago_ms"`
			Lag      *int64   `json:"lag_ms"`
			Backup   string   `json:"backup"`
		}
		Database struct {
			Seconds float64 `json:"oldest_snapshot_s"`
			Holder  string  `json:"held_by"`
		}
	}
	api.Call(t, http.MethodGet, "/v1/cluster", nil, &v)
	if len(v.Nodes) != 2 || v.Database.Seconds < 1 || !strings.HasPrefix(v.Database.Holder, "process ") {
		return fmt.Errorf("%+v", v)
	}
	for _, n := range v.Nodes {
		if n.Commits == nil || *n.Commits <= 0 || n.Copies == nil || n.Queue == nil || n.Answered == nil || n.Lag == nil || n.Backup == "" {
			return fmt.Errorf("%+v", v)
		}
	}
	return nil
}
