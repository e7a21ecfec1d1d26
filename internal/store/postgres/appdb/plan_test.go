package appdb

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/access/audit"
	"godwit.dev/godwit/internal/store/appsql"
	"godwit.dev/godwit/internal/store/postgres/pgdb"
	"godwit.dev/godwit/internal/store/postgres/pgtest"
	"godwit.dev/godwit/internal/store/sqltx"
)

// TestAuditEntriesAreFoundByIndex checks that the audit log's page finds the entries of one kind, or of one person, without reading all.
func TestAuditEntriesAreFoundByIndex(t *testing.T) {
	s, err := Open(t.Context(), Config{URL: pgtest.URL(t), Schema: pgtest.Schema(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for want, f := range map[string]audit.Filter{
		"deed_app": {}, "deed_deed": {Action: "key.create"}, "deed_by": {By: "anna"},
	} {
		query, args := appsql.EntriesQuery("shop", f, 100)
		var plan []string
		err := s.db.Do(t.Context(), "explain", func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, someEntries+"SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off")
			if err == nil {
				plan, err = sqltx.Collect(ctx, pgdb.Common{Conn: tx}, sqltx.One[string], "EXPLAIN "+query, args...)
			}
			return err
		})
		if text := strings.Join(plan, "\n"); err != nil || strings.Contains(text, "Sort") || !strings.Contains(text, want) {
			t.Errorf("%+v: %s (%v), want %s", f, text, err, want)
		}
	}
}

// someEntries inserts enough rows for the planner to prefer an index.
const someEntries = `SET LOCAL session_replication_role = replica;
INSERT INTO deed(app, at, by, way, address, deed, object, outcome) SELECT CASE WHEN n % 7 = 0 THEN 'shop' ELSE 'other' END, n, 'p' || n % 50, 'page', '', 'd' || n % 50, '', 'done' FROM generate_series(1, 5000) n;
ANALYZE deed;
`
