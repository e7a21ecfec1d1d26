package postgres

import (
	"context"
	"fmt"
	"strings"
)

// columns lists the columns of a table whose changes the log has; there are none if the table does not exist, or the user may not see it. logged
// reports whether it is a table whose changes the log has at all.
func (f *feed) columns(ctx context.Context, c *conn, t *Table) (names []string, logged bool, err error) {
	rows, err := c.query(ctx, fmt.Sprintf(`SELECT a.attname, c.relkind IN ('r', 'p') AND c.relpersistence = 'p' AND c.oid >= %d
		FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
		WHERE c.oid = %s ORDER BY a.attnum`, firstOwn, t.oid()))
	if err != nil {
		return nil, false, err
	}
	for _, r := range rows {
		names, logged = append(names, string(r[0])), string(r[1]) == "t"
	}
	if listed, _, err := f.published(ctx, c, t); err != nil || len(listed) > 0 {
		return listed, logged, err
	}
	return names, logged, nil
}

// published returns the columns of a table that the publication has, and its condition on rows. There are none if it lacks the table, or if this
// PostgreSQL publishes whole tables only.
func (f *feed) published(ctx context.Context, c *conn, t *Table) (names []string, filter string, err error) {
	if c.version < 150_000 {
		return nil, "true", nil
	}
	schema, name := t.names()
	generated := "a.attgenerated = ''" // before version 18 the view may list generated columns, though the log never has them
	if c.version >= 180_000 {
		generated = "true"
	}
	rows, err := c.query(ctx, fmt.Sprintf(`SELECT a.attname, coalesce(p.rowfilter, 'true') FROM pg_publication_tables p JOIN pg_attribute a ON a.attrelid = %s AND a.attname = ANY(p.attnames)
		WHERE p.pubname = %s AND p.schemaname = %s AND p.tablename = %s AND %s ORDER BY a.attnum`,
		t.oid(), literal(f.publication), literal(schema), literal(name), generated))
	filter = "true"
	for _, r := range rows {
		names, filter = append(names, string(r[0])), string(r[1])
	}
	return names, filter, err
}

// quotedAll is a list of columns.
func quotedAll(names []string) string {
	all := make([]string, len(names))
	for i, name := range names {
		all[i] = quoted(name)
	}
	return strings.Join(all, ", ")
}
