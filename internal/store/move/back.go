package move

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

// backTable copies a table of PostgreSQL into a file. The columns of the table that it embeds are those of the file, each with its source
// in PostgreSQL.
type backTable struct {
	table
	group string // columns by which rows of the source are put together; "": none
	// among keeps the rows whose key has a row in the table of notifications: the others are left over from copies that are deleted.
	among bool
}

var _ returning = (*backTable)(nil)

// plainSource matches the source of a column that is a column, perhaps with the table's name.
var plainSource = regexp.MustCompile(`^(?:(\w+)\.)?([a-z]\w*)$`)

// back turns the table round: a column that has another column as its source becomes the source of that; columns that are computed are
// left out. A table that sets its returning columns has these instead.
func (t *table) back() *backTable {
	b := &backTable{table: *t, group: t.backGroup, among: t.joins != ""}
	b.joins, b.where = "", ""
	if t.backColumns != nil {
		b.columns = t.backColumns
		return b
	}
	b.columns = nil
	has := make(map[string]bool)
	for i, text := range t.columns {
		name, source, truth := column(text)
		m := plainSource.FindStringSubmatch(source)
		if m == nil || m[1] != "" && m[1] != t.table || has[m[2]] {
			if i < t.key {
				panic(fmt.Sprintf("%s: column %s of the key has no way back", t.what, name)) // TestEveryTableIsCopied fails then
			}
			continue
		}
		has[m[2]] = true
		text = m[2]
		if name != m[2] {
			text += " = " + name
		} else if truth {
			text += " bool"
		}
		b.columns = append(b.columns, text)
	}
	return b
}

func (b *backTable) count(ctx context.Context, tx tx) (n int64, err error) {
	err = tx.QueryRow(ctx, "SELECT count(*) FROM "+b.id()).Scan(&n)
	return n, err
}

func (b *backTable) readAll(ctx context.Context, tx tx, after []any, yield func(slice) error) error {
	sources := make([]string, len(b.columns))
	for i, text := range b.columns {
		_, sources[i], _ = column(text)
	}
	key := strings.Join(sources[:b.key], ", ")
	sql := fmt.Sprintf("SELECT %s FROM %s", strings.Join(sources, ", "), b.id())
	if after != nil {
		args := make([]string, b.key)
		for i := range args {
			args[i] = fmt.Sprintf("$%d", i+1)
		}
		sql += fmt.Sprintf(" WHERE (%s) > (%s)", key, strings.Join(args, ", "))
	}
	if b.group != "" {
		sql += " GROUP BY " + b.group
	}
	rows, err := tx.Query(ctx, sql+" ORDER BY "+key, after...)
	if err != nil {
		return err
	}
	defer rows.Close()
	out := slicer{yield: yield}
	for rows.Next() {
		row, err := rows.Values()
		if err != nil {
			return err
		}
		last := make([]any, b.key)
		for i, v := range row {
			if row[i] = forFile(v); i < b.key {
				last[i] = forKey(v)
			}
		}
		if err := out.add(row, last); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	return out.rest()
}

// forFile returns a value of PostgreSQL in the form that SQLite has.
func forFile(v any) any {
	switch v.(type) {
	case bool, int16, int32:
		return integer(v)
	}
	return v
}

// forKey returns a value of PostgreSQL in the form in which a key is noted and given back.
func forKey(v any) any {
	if truth, ok := v.(bool); ok {
		return truth
	}
	return forFile(v)
}

// slicer puts rows together in slices.
type slicer struct {
	yield func(slice) error
	s     slice
	bytes int
}

func (x *slicer) add(row, last []any) error {
	x.s.rows, x.s.last = append(x.s.rows, row), last
	for _, v := range row {
		switch v := v.(type) {
		case string:
			x.bytes += len(v)
		case []byte:
			x.bytes += len(v)
		}
	}
	if len(x.s.rows) < sliceRows && x.bytes < sliceBytes {
		return nil
	}
	return x.rest()
}

// rest yields what has no slice yet.
func (x *slicer) rest() error {
	if len(x.s.rows) == 0 {
		return nil
	}
	s := x.s
	x.s, x.bytes = slice{}, 0
	return x.yield(s)
}

func (b *backTable) keep(c *sqlite.Conn, rows [][]any) ([][]any, error) {
	if !b.among {
		return rows, nil
	}
	return keepWhere(c, "SELECT 1 FROM notification WHERE pos = ?", rows)
}

// keepWhere returns the rows for whose first column a query of the file finds something.
func keepWhere(c *sqlite.Conn, sql string, rows [][]any) (kept [][]any, err error) {
	for _, row := range rows {
		err := sqlitedb.Each(c, sql, row[:1], func(*sqlite.Stmt) error {
			kept = append(kept, row)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return kept, nil
}

func (b *backTable) write(c *sqlite.Conn, s slice) error {
	sql := fmt.Sprintf("INSERT OR REPLACE INTO %s(%s) VALUES (%s)", b.table.table, strings.Join(b.names(), ", "), strings.Repeat(", ?", len(b.columns))[2:])
	return insertAll(c, sql, s.rows)
}

func insertAll(c *sqlite.Conn, sql string, rows [][]any) error {
	for _, row := range rows {
		if err := sqlitedb.Each(c, sql, row, nil); err != nil {
			return err
		}
	}
	return nil
}

func (b *backTable) finish(ctx context.Context, tx tx, db *sqlitedb.DB) error {
	if b.backEnd != nil {
		return b.backEnd(ctx, tx, db)
	}
	return b.countOnInFile(ctx, tx, db)
}

// countOnInFile makes numbers that are never used twice continue after the last one assigned.
func (b *backTable) countOnInFile(ctx context.Context, tx tx, db *sqlitedb.DB) error {
	if b.number == "" {
		return nil
	}
	var last int64
	const sql = "SELECT coalesce(pg_sequence_last_value(pg_get_serial_sequence($1, $2)::regclass), 0)"
	if err := tx.QueryRow(ctx, sql, b.id(), b.number).Scan(&last); err != nil || last == 0 {
		return err
	}
	return db.Do(ctx, func(c *sqlite.Conn) error {
		counts := false
		err := sqlitedb.EachOnce(c, "SELECT 1 FROM sqlite_schema WHERE name = ? AND sql LIKE '%AUTOINCREMENT%'", []any{b.table.table}, func(*sqlite.Stmt) error {
			counts = true
			return nil
		})
		if err != nil || !counts {
			return err
		}
		if err := sqlitedb.EachOnce(c, "UPDATE sqlite_sequence SET seq = max(seq, ?2) WHERE name = ?1", []any{b.table.table, last}, nil); err != nil || c.Changes() > 0 {
			return err
		}
		return sqlitedb.EachOnce(c, "INSERT INTO sqlite_sequence(name, seq) VALUES (?1, ?2)", []any{b.table.table, last}, nil)
	})
}

func (b *backTable) digestFile(c *sqlite.Conn, sum *digest) error {
	return digestQuery(c, fmt.Sprintf("SELECT %s FROM %s", strings.Join(b.names(), ", "), b.table.table), sum)
}

// digestQuery adds the rows of a query of a file.
func digestQuery(c *sqlite.Conn, sql string, sum *digest) error {
	return sqlitedb.EachOnce(c, sql, nil, func(st *sqlite.Stmt) error {
		row := make([]any, st.ColumnCount())
		for i := range row {
			row[i] = value(st, i)
		}
		sum.add(row)
		return nil
	})
}

// back is plain: in the file the row of a recipient needs no copies after it.
func (*recipients) back() *backTable {
	t := &table{
		what: (*recipients)(nil).name(), source: mailbox, schema: "godwit_mailbox", table: "recipient", key: 1, number: "key",
		columns: []string{"key", "app", "name", "last_seq", "last_seen"},
	}
	return t.back()
}
