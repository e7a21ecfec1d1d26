package move_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"
	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/store"
	"godwit.dev/godwit/internal/store/move"
	"godwit.dev/godwit/internal/store/postgres/pgtest"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// files are where the schemas come from.
var files = map[string]string{
	"godwit_app": store.AppsFile, "godwit_mailbox": store.MailboxFile, "godwit_event": store.EventsFile, "godwit_object": store.ObjectsFile,
	"godwit_campaign": store.CampaignsFile,
}

// elsewhere says where tables go that are not copied one to one, or why they need not be.
var elsewhere = map[string]string{
	"godwit_mailbox.content":         "goes with its notifications",
	"godwit_mailbox.slice":           "is made of the log",
	"godwit_mailbox.block":           "is made of the log",
	"godwit_mailbox.erasure":         "what is being erased stays behind",
	"godwit_mailbox.meta":            "is in counters",
	"godwit_mailbox.plan":            "there are none that wait",
	"godwit_mailbox.escalation":      "there are none that wait",
	"godwit_campaign.push_send":      "none of them waits",
	"godwit_campaign.delivery_owner": "is of a former version",
	"godwit_campaign.endpoint_app":   "is made when it is needed",
	"godwit_mailbox.pending":         "comes of notifications",
	"godwit_mailbox.hour":            "says which tables there are",
	"godwit_mailbox.day":             "says which tables there are",
	"godwit_mailbox.retention":       "is set every hour",
	"godwit_app.version":             "starts anew",
	"godwit_event.log":               "is in the head",
	"godwit_event.head":              "is in the log",
}

// A table that somebody adds to a store is copied, or is known not to need it.
func TestEveryTableIsCopied(t *testing.T) {
	data, url := t.TempDir(), pgtest.Database(t)
	s, err := store.Open(t.Context(), store.Config{Data: data})
	ok(t, err)
	ok(t, s.Close())
	_, err = store.MoveToPostgres(t.Context(), store.MoveConfig{Data: data, Postgres: url})
	ok(t, err)
	copied := move.Tables()
	known := func(schema, table string) bool {
		return elsewhere[schema+"."+table] != "" || slices.Contains(copied, [2]string{schema, table})
	}
	for schema, file := range files {
		for _, table := range tablesOf(t, data+"/"+file) {
			if !known(schema, table) {
				t.Errorf("%s of %s is not copied", table, file)
			}
		}
	}
	c, err := pgx.Connect(t.Context(), url)
	ok(t, err)
	defer c.Close(context.Background())
	rows, err := c.Query(t.Context(), "SELECT schemaname, tablename FROM pg_tables WHERE schemaname LIKE 'godwit%'")
	ok(t, err)
	var schema, table string
	_, err = pgx.ForEachRow(rows, []any{&schema, &table}, func() error {
		if timed, _, _ := strings.Cut(table, "_"); timed == "note" || timed == "done" || timed == "content" || timed == "stub" {
			return nil
		}
		if files[schema] != "" && table != "migration" && !known(schema, table) {
			t.Errorf("nothing is copied to %s.%s", schema, table)
		}
		return nil
	})
	ok(t, err)
}

// tablesOf lists the tables of a file that nobody has open.
func tablesOf(t *testing.T, path string) (list []string) {
	t.Helper()
	c, err := sqlite.OpenConn(path, sqlite.OpenReadOnly)
	ok(t, err)
	defer c.Close()
	ok(t, sqlitedb.EachOnce(c, "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'", nil, func(s *sqlite.Stmt) error {
		list = append(list, s.ColumnText(0))
		return nil
	}))
	return list
}
