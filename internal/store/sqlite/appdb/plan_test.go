package appdb

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/access/audit"
	"godwit.dev/godwit/internal/store/appsql"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
	"godwit.dev/godwit/internal/store/sqltx"
)

// TestAuditEntriesAreFoundByIndex checks that a page of the audit log for one kind of action, or for one person, does not scan all actions.
func TestAuditEntriesAreFoundByIndex(t *testing.T) {
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "apps.db"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for want, f := range map[string]audit.Filter{
		"INDEX deed_app (app=? AND id<?)": {}, "INDEX deed_deed (app=? AND deed=? AND id<?)": {Action: "key.create"}, "INDEX deed_by (app=? AND by=? AND id<?)": {By: "anna"},
		"INDEX deed_by (app=? AND by=?": {Action: "key.create", By: "anna"},
	} {
		var plan string
		err := s.db.Read(t.Context(), func(c *sqlite.Conn) error {
			query, args := appsql.EntriesQuery("shop", f, 100)
			return sqlitedb.Common{Conn: c}.Each(t.Context(), "EXPLAIN QUERY PLAN "+query, args, func(row sqltx.Row) error {
				var id, parent, none int
				var step string
				err := row.Scan(&id, &parent, &none, &step)
				plan += step + "; "
				return err
			})
		})
		if err != nil || strings.Contains(plan, "TEMP B-TREE") || !strings.Contains(plan, want) {
			t.Errorf("%+v: %s (%v), want %s", f, plan, err, want)
		}
	}
}
