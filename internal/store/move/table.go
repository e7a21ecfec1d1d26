package move

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

// slice holds a few rows, and the key of the last one as the source has it.
type slice struct {
	rows [][]any
	last []any
	cut  bool // more may follow
}

// table is a table that is the same on both sides, or nearly so.
type table struct {
	what   string // in words; names the part
	source func(*Files) *sqlitedb.DB
	schema string
	table  string
	// columns lists the target's columns, those of the key first. A suffix to a column's name gives the source: " bool" if the source has 0
	// and 1; " = " and an expression if the source has no column of that name.
	columns []string
	key     int                                                    // how many of them
	where   string                                                 // of the source; "": all
	joins   string                                                 // joins of the source, after its name in FROM
	number  string                                                 // column that the database numbers by itself; "": none
	end     func(ctx context.Context, tx tx, c *sqlite.Conn) error // further work when all rows are copied; nil: none

	// The way back is derived from these, see back, but for a table that sets one of the following.
	backColumns []string // of the file, those of the key first, with their sources in PostgreSQL
	backGroup   string   // columns by which rows are put together
	backEnd     func(ctx context.Context, tx tx, db *sqlitedb.DB) error
	backPart    func(b *backTable) returning
}

var _ part = (*table)(nil)

func (t *table) name() string               { return t.what }
func (t *table) file(f *Files) *sqlitedb.DB { return t.source(f) }

// id is the table's name in PostgreSQL.
func (t *table) id() string { return pgx.Identifier{t.schema, t.table}.Sanitize() }

// column splits a column's description.
func column(s string) (name, source string, truth bool) {
	name, source, other := strings.Cut(s, " = ")
	name, truth = strings.CutSuffix(name, " bool")
	if !other {
		source = name
	}
	return name, source, truth
}

func (t *table) names() (list []string) {
	for _, s := range t.columns {
		name, _, _ := column(s)
		list = append(list, name)
	}
	return list
}

func (t *table) count(c *sqlite.Conn) (n int64, err error) {
	err = sqlitedb.Each(c, "SELECT count(*) FROM "+t.table+t.joins+t.condition(), nil, func(s *sqlite.Stmt) error {
		n = s.ColumnInt64(0)
		return nil
	})
	return n, err
}

func (t *table) condition() string {
	if t.where == "" {
		return ""
	}
	return " WHERE " + t.where
}

func (t *table) read(c *sqlite.Conn, after []any) (slice, error) {
	sources := make([]string, len(t.columns))
	for i, s := range t.columns {
		_, sources[i], _ = column(s)
	}
	key := strings.Join(sources[:t.key], ", ")
	where := t.condition()
	if after != nil {
		join := " WHERE "
		if where != "" {
			join = " AND "
		}
		where += join + "(" + key + ") > (" + strings.Repeat(", ?", t.key)[2:] + ")"
	}
	sql := fmt.Sprintf("SELECT %s FROM %s%s%s ORDER BY %s", strings.Join(sources, ", "), t.table, t.joins, where, key)
	return readSlice(c, sql, after, len(t.columns), t.key, func(i int, v any) any {
		if _, _, truth := column(t.columns[i]); truth {
			return v != int64(0)
		}
		return v
	})
}

var errFull = errors.New("the slice is full")

// readSlice reads up to a slice of rows. change may convert a column's value.
func readSlice(c *sqlite.Conn, sql string, args []any, columns, key int, change func(column int, v any) any) (s slice, err error) {
	bytes := 0
	err = sqlitedb.Each(c, sql, args, func(st *sqlite.Stmt) error {
		row, last := make([]any, columns), make([]any, 0, key)
		for i := range row {
			v := value(st, i)
			if i < key {
				last = append(last, v)
			}
			switch v := v.(type) {
			case string:
				bytes += len(v)
			case []byte:
				bytes += len(v)
			}
			row[i] = change(i, v)
		}
		s.rows, s.last = append(s.rows, row), last
		if len(s.rows) == sliceRows || bytes >= sliceBytes {
			return errFull
		}
		return nil
	})
	if errors.Is(err, errFull) {
		s.cut, err = true, nil
	}
	return s, err
}

// value returns a column in a form that PostgreSQL accepts: texts without zero bytes, in valid UTF-8.
func value(st *sqlite.Stmt, i int) any {
	switch st.ColumnType(i) {
	case sqlite.TypeInteger:
		return st.ColumnInt64(i)
	case sqlite.TypeFloat:
		return st.ColumnFloat(i)
	case sqlite.TypeText:
		return text(st.ColumnText(i))
	case sqlite.TypeBlob:
		b := make([]byte, st.ColumnLen(i))
		st.ColumnBytes(i, b)
		return b
	}
	return nil
}

func text(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\ufffd"), "\x00", "")
}

func (t *table) write(ctx context.Context, tx tx, s slice) error {
	_, err := tx.CopyFrom(ctx, pgx.Identifier{t.schema, t.table}, t.names(), pgx.CopyFromRows(s.rows))
	return err
}

func (t *table) finish(ctx context.Context, tx tx, c *sqlite.Conn) error {
	if t.end != nil {
		return t.end(ctx, tx, c)
	}
	return t.countOn(ctx, tx, c)
}

// countOn makes numbers continue after the last one assigned.
func (t *table) countOn(ctx context.Context, tx tx, c *sqlite.Conn) error {
	if t.number == "" {
		return nil
	}
	last := int64(0)
	sql := fmt.Sprintf("SELECT coalesce(max(%s), 0) FROM %s", t.number, t.table)
	if err := sqlitedb.Each(c, "SELECT count(*) FROM sqlite_schema WHERE name = 'sqlite_sequence'", nil, func(s *sqlite.Stmt) error {
		if s.ColumnInt64(0) > 0 {
			sql = fmt.Sprintf("SELECT max((%s), coalesce((SELECT seq FROM sqlite_sequence WHERE name = '%s'), 0))", sql, t.table)
		}
		return nil
	}); err != nil {
		return err
	}
	if err := sqlitedb.Each(c, sql, nil, func(s *sqlite.Stmt) error { last = s.ColumnInt64(0); return nil }); err != nil || last == 0 {
		return err
	}
	_, err := tx.Exec(ctx, "SELECT setval(pg_get_serial_sequence($1, $2), $3)", t.id(), t.number, last)
	return err
}

func (t *table) digest(s slice, sum *digest) {
	for _, row := range s.rows {
		sum.add(row)
	}
}

func (t *table) digestTarget(ctx context.Context, tx tx, sum *digest) error {
	rows, err := tx.Query(ctx, fmt.Sprintf("SELECT %s FROM %s", strings.Join(t.names(), ", "), t.id()))
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		row, err := rows.Values()
		if err != nil {
			return err
		}
		sum.add(row)
	}
	return rows.Err()
}
