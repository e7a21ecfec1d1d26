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
		changed: keepVersion,
	}
}

// keepVersion stores a template's revision beside the former ones. It deletes those that are too old, and those of a deleted template of
// the same name, which a server of an earlier version may have left.
func keepVersion(ctx context.Context, tx sqltx.Tx, t *template.Template) error {
	says, err := encodeTemplate(t)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, "INSERT INTO template_version (app, name, revision, content, updated_at) VALUES ($1, $2, $3, $4, $5)"+
		" ON CONFLICT (app, name, revision) DO UPDATE SET content = excluded.content, updated_at = excluded.updated_at", t.App, t.Name, t.Revision, says, t.UpdatedAt.UnixMilli())
	if err == nil {
		_, err = tx.Exec(ctx, "DELETE FROM template_version WHERE app = $1 AND name = $2 AND (revision <= $3 OR revision > $4)", t.App, t.Name, t.Revision-template.MaxVersions, t.Revision)
	}
	return err
}

// TemplateVersions reads the kept revisions of a template, the newest first.
func (s *Store) TemplateVersions(ctx context.Context, app, name string) (list []template.Template, err error) {
	read := func(row sqltx.Row) (template.Template, error) {
		t := template.Template{App: app, Name: name}
		var updated int64
		var says string
		if err := row.Scan(&t.Revision, &says, &updated); err != nil {
			return t, err
		}
		t.UpdatedAt = fromMillis(updated)
		return t, decodeTemplate(&t, says)
	}
	err = s.db.Read(ctx, "read revisions of template "+name, func(ctx context.Context, tx sqltx.Tx) (err error) {
		list, err = sqltx.Collect(ctx, tx, read, "SELECT revision, content, updated_at FROM template_version WHERE app = $1 AND name = $2 ORDER BY revision DESC", app, name)
		return err
	})
	return list, err
}

// Template reads a template of an app.
func (s *Store) Template(ctx context.Context, app, name string) (*template.Template, error) {
	t, err := s.templates.Find(ctx, app, name)
	if err == nil && t == nil {
		err = template.ErrUnknown
	}
	return t, err
}

// Templates reads a page of an app's templates.
func (s *Store) Templates(ctx context.Context, app, after string, limit int) ([]template.Template, error) {
	return s.templates.Page(ctx, app, after, limit)
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
		if err == nil {
			_, err = tx.Exec(ctx, "DELETE FROM template_version WHERE app = $1 AND name = $2", app, name)
		}
		return false, err
	})
}
