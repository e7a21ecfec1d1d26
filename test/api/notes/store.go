package notes

import (
	"context"

	"github.com/jackc/pgx/v5"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"godwit.dev/godwit/internal/server/module"
	"godwit.dev/godwit/internal/store/postgres/pgdb"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

// store keeps notes in the order in which they were added.
type store interface {
	add(ctx context.Context, app, text string) error
	list(ctx context.Context, app string) ([]string, error)
	eraseApp(ctx context.Context, app string) error
}

func storeOf(d *module.Database) store {
	if d.Postgres != nil {
		return inPostgres{d.Postgres}
	}
	return inSQLite{d.SQLite}
}

type inSQLite struct{ db *sqlitedb.DB }

func (s inSQLite) add(ctx context.Context, app, text string) error {
	return s.db.Do(ctx, func(c *sqlite.Conn) error {
		return sqlitex.Execute(c, "INSERT INTO note (app, text) VALUES (?, ?)", &sqlitex.ExecOptions{Args: []any{app, text}})
	})
}

func (s inSQLite) list(ctx context.Context, app string) (all []string, err error) {
	err = s.db.Read(ctx, func(c *sqlite.Conn) error {
		return sqlitex.Execute(c, "SELECT text FROM note WHERE app = ? ORDER BY id", &sqlitex.ExecOptions{Args: []any{app}, ResultFunc: func(row *sqlite.Stmt) error {
			all = append(all, row.ColumnText(0))
			return nil
		}})
	})
	return all, err
}

func (s inSQLite) eraseApp(ctx context.Context, app string) error {
	return s.db.Do(ctx, func(c *sqlite.Conn) error {
		return sqlitex.Execute(c, "DELETE FROM note WHERE app = ?", &sqlitex.ExecOptions{Args: []any{app}})
	})
}

type inPostgres struct{ db *pgdb.DB }

func (s inPostgres) add(ctx context.Context, app, text string) error {
	return s.db.Do(ctx, "add note", func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "INSERT INTO note (app, text) VALUES ($1, $2)", app, text)
		return err
	})
}

func (s inPostgres) list(ctx context.Context, app string) (all []string, err error) {
	err = s.db.Each(ctx, "list notes", "SELECT text FROM note WHERE app = $1 ORDER BY id", []any{app}, func(rows pgx.Rows) error {
		var text string
		if err := rows.Scan(&text); err != nil {
			return err
		}
		all = append(all, text)
		return nil
	})
	return all, err
}

func (s inPostgres) eraseApp(ctx context.Context, app string) error {
	return s.db.Do(ctx, "erase notes", func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "DELETE FROM note WHERE app = $1", app)
		return err
	})
}
