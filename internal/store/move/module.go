package move

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/store/postgres/pgdb"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

// Module has the tables of a module on both sides.
type Module struct {
	Name   string
	File   *sqlitedb.DB
	Schema string
}

// copied are the types of columns whose values are the same on both sides.
var copied = []string{"text", "character varying", "smallint", "integer", "bigint", "boolean", "bytea", "double precision"}

// moduleTables lists the tables of a module, in the order in which they were made: what others refer to first.
func moduleTables(ctx context.Context, db *pgdb.DB, m *Module) (tables []*table, err error) {
	err = m.File.Read(ctx, func(c *sqlite.Conn) error {
		tables = nil
		if err := sqlitedb.Each(c, "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY rowid", nil, func(s *sqlite.Stmt) error {
			name := s.ColumnText(0)
			tables = append(tables, &table{what: m.Name + ": " + name, source: func(*Files) *sqlitedb.DB { return m.File }, schema: m.Schema, table: name})
			return nil
		}); err != nil {
			return err
		}
		for _, t := range tables {
			// Columns of the key come first, in its order.
			if err := sqlitedb.Each(c, "SELECT name, pk FROM pragma_table_info(?) ORDER BY pk = 0, pk, cid", []any{t.table}, func(s *sqlite.Stmt) error {
				t.columns = append(t.columns, s.ColumnText(0))
				if s.ColumnInt64(1) > 0 {
					t.key++
				}
				return nil
			}); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		err = db.Do(ctx, "read the columns of a module", func(ctx context.Context, tx tx) error {
			for _, t := range tables {
				if err := t.fit(ctx, tx); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err != nil {
		return nil, fmt.Errorf("read what tables module %s has: %w", m.Name, err)
	}
	return tables, nil
}

// fit adds how the target's columns differ, and refuses a table that cannot be copied.
func (t *table) fit(ctx context.Context, tx tx) error {
	if t.key == 0 {
		return fmt.Errorf("table %s has no primary key, without which it cannot be copied", t.table)
	}
	rows, err := tx.Query(ctx, `SELECT column_name, data_type, pg_get_serial_sequence($3, column_name) IS NOT NULL FROM information_schema.columns
		WHERE table_schema = $1 AND table_name = $2`, t.schema, t.table, t.id())
	if err != nil {
		return err
	}
	types := make(map[string]string)
	var name, kind string
	var counts bool
	if _, err := pgx.ForEachRow(rows, []any{&name, &kind, &counts}, func() error {
		if types[name] = kind; counts {
			t.number = name
		}
		return nil
	}); err != nil {
		return err
	}
	for i, text := range t.columns {
		name, _, _ := column(text)
		switch kind := types[name]; {
		case kind == "":
			return fmt.Errorf("table %s has a column %s that PostgreSQL lacks", t.table, name)
		case !slices.Contains(copied, kind):
			return fmt.Errorf("column %s of table %s has the type %s in PostgreSQL; only %s can be copied", name, t.table, kind, strings.Join(copied, ", "))
		case kind == "boolean":
			t.columns[i] = name + " bool"
		}
	}
	return nil
}
