package appsql

import (
	"context"

	"godwit.dev/godwit/internal/campaigns/template"
	"godwit.dev/godwit/internal/store/sqltx"
)

// templates returns the table of templates. Its changes wake no watchers: cached templates are read again after a second.
func templates(db DB) Table[template.Template] {
	return Table[template.Template]{
		db: db, one: "template", many: "templates", table: "template", columns: []string{"app", "name", "revision", "content", "created_at", "updated_at"}, quiet: true,
		empty: func(app, name string) template.Template { return template.Template{App: app, Name: name} },
		read: func(row sqltx.Row) (t template.Template, err error) {
			var created, updated int64
			var says string
			if err := row.Scan(&t.App, &t.Name, &t.Revision, &says, &created, &updated); err != nil {
				return t, err
			}
			t.CreatedAt, t.UpdatedAt = fromMillis(created), fromMillis(updated)
			return t, decodeTemplate(&t, says)
		},
		write: func(t *template.Template) ([]any, error) {
			says, err := encodeTemplate(t)
			return []any{t.Revision, says, t.CreatedAt.UnixMilli(), t.UpdatedAt.UnixMilli()}, err
		},
	}
}

// Template reads a template of an app.
func (s *Store) Template(ctx context.Context, app, name string) (t *template.Template, err error) {
	err = s.db.Read(ctx, "read template "+name, func(ctx context.Context, tx sqltx.Tx) (err error) {
		t, err = s.templates.find(ctx, tx, app, name)
		return err
	})
	if err == nil && t == nil {
		err = template.ErrUnknown
	}
	return t, err
}

// Templates reads a page of an app's templates.
func (s *Store) Templates(ctx context.Context, app, after string, limit int) (list []template.Template, err error) {
	t := &s.templates
	err = s.db.Read(ctx, "read templates", func(ctx context.Context, tx sqltx.Tx) (err error) {
		list, err = sqltx.Collect(ctx, tx, t.read, t.selects()+t.named(">")+" ORDER BY name LIMIT $3", app, after, limit)
		return err
	})
	return list, err
}

// UpdateTemplate changes or makes a template of an app.
func (s *Store) UpdateTemplate(ctx context.Context, app, name string, change func(t *template.Template, others int) error) error {
	return s.templates.Update(ctx, app, name, change)
}

// DeleteTemplate deletes a template of an app.
func (s *Store) DeleteTemplate(ctx context.Context, app, name string, check func(*template.Template) error) error {
	return s.db.Change(ctx, "delete template "+name, func(ctx context.Context, tx sqltx.Tx) (bool, error) {
		if err := lockApp(ctx, tx, app); err != nil {
			return false, err
		}
		t, err := s.templates.find(ctx, tx, app, name)
		if err == nil && t == nil {
			err = template.ErrUnknown
		}
		if err == nil {
			err = check(t)
		}
		if err == nil {
			_, err = s.templates.delete(ctx, tx, app, name)
		}
		return false, err
	})
}
