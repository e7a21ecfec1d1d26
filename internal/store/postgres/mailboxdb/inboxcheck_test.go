package mailboxdb_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/store/postgres/mailboxdb"
	"godwit.dev/godwit/internal/store/postgres/pgtest"
)

// TestWrongCountsOfInboxesAreFound changes rows past the store.
func TestWrongCountsOfInboxesAreFound(t *testing.T) {
	cfg := mailboxdb.Config{URL: pgtest.URL(t), Schema: pgtest.Schema(t)}
	check := func() (problems []string) {
		t.Helper()
		_, err := mailboxdb.CheckInboxesOf(t.Context(), cfg.URL, cfg.Schema, func(_, recipient, problem string) { problems = append(problems, recipient+" "+problem) })
		if err != nil {
			t.Fatal(err)
		}
		return problems
	}
	if found := check(); len(found) > 0 {
		t.Fatalf("before there are mailboxes: %q", found)
	}
	s := open(t, cfg)
	now := time.Now()
	for i := range 50 {
		n := &notification.Notification{App: "app", ID: fmt.Sprint("n", i), CreatedAt: now, ExpiresAt: now.Add(time.Hour), Content: notification.Content{Title: "T", Inbox: &notification.Inbox{Keep: time.Hour}}}
		if err := s.Append(t.Context(), []*mailbox.Append{{N: n, To: []string{"ann", "bob", "cat"}[:1+i%3]}}); err != nil {
			t.Fatal(err)
		}
	}
	if found := check(); len(found) > 0 {
		t.Fatalf("of whole rows: %q", found)
	}
	db, err := pgx.Connect(t.Context(), cfg.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(context.Background())
	if _, err := db.Exec(t.Context(), "SET search_path = "+cfg.Schema); err != nil {
		t.Fatal(err)
	}
	const ann, bob = "(SELECT key << 12 FROM recipient WHERE name = 'ann')", "(SELECT key << 12 FROM recipient WHERE name = 'bob')"
	for sql, want := range map[string]string{
		"DELETE FROM inbox WHERE key = " + ann:                                                        "ann its newest items and its counts are missing",
		"UPDATE inbox SET data = (SELECT data FROM inbox WHERE key = " + bob + ") WHERE key = " + ann: "ann its head does not name",
		"DELETE FROM inbox WHERE key > " + ann + " AND key < " + ann + " + 4096":                      "ann inbox",
		"UPDATE inbox SET data = substr(data, 1, length(data) - 3) WHERE key = " + bob:                "bob inbox",
		"DELETE FROM inbox_content WHERE pos = (SELECT max(pos) FROM inbox_content)":                  "the contents of 1 items are missing",
		"UPDATE recipient SET name = 'dan', app = 77 WHERE name = 'cat'":                              "nobody has this number",
	} {
		if _, err := db.Exec(t.Context(), "CREATE TABLE IF NOT EXISTS i AS SELECT * FROM inbox; CREATE TABLE IF NOT EXISTS c AS SELECT * FROM inbox_content; CREATE TABLE IF NOT EXISTS r AS SELECT * FROM recipient"); err != nil {
			t.Fatal(err)
		}
		if _, err := db.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
		if found := strings.Join(check(), "\n"); !strings.Contains(found, want) {
			t.Errorf("after %s it finds %q, want %q", sql, found, want)
		}
		if _, err := db.Exec(t.Context(), `DELETE FROM inbox; INSERT INTO inbox SELECT * FROM i; DELETE FROM inbox_content; INSERT INTO inbox_content SELECT * FROM c;
			UPDATE recipient SET name = r.name, app = r.app FROM r WHERE r.key = recipient.key`); err != nil {
			t.Fatal(err)
		}
		if found := check(); len(found) > 0 {
			t.Fatalf("after all is as it was: %q", found)
		}
	}
}
