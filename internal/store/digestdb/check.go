package digestdb

import (
	"context"
	"fmt"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
	"godwit.dev/godwit/internal/store/sqltx"
)

// comparisons count contradictions between rows.
var comparisons = []struct{ sql, what string }{
	{`SELECT count(*) FROM item i WHERE i.status = 4 AND NOT EXISTS (SELECT 1 FROM digest d WHERE d.app = i.app AND d.id = i.digest AND d.state < 3)`, "notifications wait for a digest that is not there"},
	{`SELECT count(*) FROM item i WHERE i.status = 4 AND NOT EXISTS (SELECT 1 FROM body b WHERE b.app = i.app AND b.id = i.body)`, "notifications wait for a digest and have no content"},
	{`SELECT count(*) FROM digest d LEFT JOIN (SELECT app, digest, count(*) AS n, sum(size) AS size FROM item WHERE status = 4 GROUP BY app, digest) i ON i.app = d.app AND i.digest = d.id
		WHERE d.state = 1 AND (d.items <> coalesce(i.n, 0) OR d.bytes <> coalesce(i.size, 0))`, "digests count other notifications than wait for them"},
	{`SELECT count(*) FROM body b LEFT JOIN (SELECT app, body, count(*) AS n FROM item WHERE status = 4 GROUP BY app, body) i ON i.app = b.app AND i.body = b.id
		WHERE b.refs <> coalesce(i.n, 0)`, "contents of digests count other notifications than have them"},
}

// Compare tells how digests, their items and contents contradict each other, in one snapshot; empty: they agree.
func Compare(ctx context.Context, tx sqltx.Tx) (how []string, err error) {
	for _, c := range comparisons {
		n, err := sqltx.Collect(ctx, tx, sqltx.One[int64], c.sql)
		if err != nil {
			return nil, fmt.Errorf("compare digests: %w", err)
		}
		if n[0] > 0 {
			how = append(how, fmt.Sprintf("%d %s", n[0], c.what))
		}
	}
	return how, nil
}

// Differs is Compare for a file that is not open elsewhere: it tells the first contradiction.
func Differs(c *sqlite.Conn) (string, error) {
	how, err := Compare(context.Background(), sqlitedb.Common{Conn: c})
	if err != nil || len(how) == 0 {
		return "", err
	}
	return how[0], nil
}
