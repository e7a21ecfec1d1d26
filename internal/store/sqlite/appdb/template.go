package appdb

import (
	"context"
	"errors"
	"fmt"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/campaigns/template"
	"godwit.dev/godwit/internal/store/appjson"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

var _ template.Store = (*Store)(nil)

const templateTable = `
CREATE TABLE template (
	app        TEXT NOT NULL,
	name       TEXT NOT NULL,
	revision   INTEGER NOT NULL,
	content    TEXT NOT NULL,    -- JSON
	created_at INTEGER NOT NULL, -- milliseconds
	updated_at INTEGER NOT NULL,
	PRIMARY KEY (app, name)
) STRICT, WITHOUT ROWID;
`

const selectTemplates = "SELECT app, name, revision, content, created_at, updated_at FROM template WHERE app = ?"

// Template reads a template of an app.
func (s *Store) Template(ctx context.Context, app, name string) (t *template.Template, err error) {
	err = s.db.Read(ctx, func(c *sqlite.Conn) error {
		t, err = findTemplate(c, app, name)
		return err
	})
	return t, err
}

func findTemplate(c *sqlite.Conn, app, name string) (t *template.Template, err error) {
	err = sqlitedb.Each(c, selectTemplates+" AND name = ?", []any{app, name}, func(row *sqlite.Stmt) error {
		one, err := readTemplate(row)
		t = &one
		return err
	})
	if err == nil && t == nil {
		err = template.ErrUnknown
	}
	return t, err
}

func readTemplate(row *sqlite.Stmt) (template.Template, error) {
	t := template.Template{
		App: row.ColumnText(0), Name: row.ColumnText(1), Revision: row.ColumnInt64(2),
		CreatedAt: fromMillis(row.ColumnInt64(4)), UpdatedAt: fromMillis(row.ColumnInt64(5)),
	}
	return t, appjson.ReadTemplate(&t, row.ColumnText(3))
}

// Templates reads a page of an app's templates.
func (s *Store) Templates(ctx context.Context, app, after string, limit int) (list []template.Template, err error) {
	err = s.db.Read(ctx, func(c *sqlite.Conn) error {
		list = nil
		return sqlitedb.Each(c, selectTemplates+" AND name > ? ORDER BY name LIMIT ?", []any{app, after, limit}, func(row *sqlite.Stmt) error {
			t, err := readTemplate(row)
			list = append(list, t)
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read app store: %w", err)
	}
	return list, nil
}

// UpdateTemplate changes or makes a template of an app.
func (s *Store) UpdateTemplate(ctx context.Context, app, name string, change func(t *template.Template, others int) error) error {
	return s.change(ctx, func(c *sqlite.Conn) error {
		if err := haveApp(c, app); err != nil {
			return err
		}
		others := 0
		err := sqlitedb.Each(c, "SELECT count(*) FROM template WHERE app = ? AND name <> ?", []any{app, name}, func(row *sqlite.Stmt) error {
			others = row.ColumnInt(0)
			return nil
		})
		if err != nil {
			return err
		}
		one, err := findTemplate(c, app, name)
		if errors.Is(err, template.ErrUnknown) {
			one, err = &template.Template{App: app, Name: name}, nil
		}
		if err != nil {
			return err
		}
		if err := change(one, others); err != nil {
			return err
		}
		says, err := appjson.Template(one)
		if err != nil {
			return err
		}
		return sqlitedb.Each(c, "INSERT OR REPLACE INTO template(app, name, revision, content, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?)",
			[]any{app, name, one.Revision, says, millis(one.CreatedAt), millis(one.UpdatedAt)}, nil)
	})
}

// DeleteTemplate deletes a template of an app.
func (s *Store) DeleteTemplate(ctx context.Context, app, name string, check func(*template.Template) error) error {
	return s.change(ctx, func(c *sqlite.Conn) error {
		t, err := findTemplate(c, app, name)
		if err != nil {
			return err
		}
		if err := check(t); err != nil {
			return err
		}
		return sqlitedb.Each(c, "DELETE FROM template WHERE app = ? AND name = ?", []any{app, name}, nil)
	})
}
