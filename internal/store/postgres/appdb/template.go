package appdb

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/campaigns/template"
	"godwit.dev/godwit/internal/store/appjson"
)

var _ template.Store = (*Store)(nil)

const selectTemplates = "SELECT app, name, revision, content, created_at, updated_at FROM template WHERE app = $1"

// Template reads a template of an app.
func (s *Store) Template(ctx context.Context, app, name string) (t *template.Template, err error) {
	err = s.db.Read(ctx, "read template "+name, func(ctx context.Context, tx pgx.Tx) (err error) {
		t, err = findTemplate(ctx, tx, app, name)
		return err
	})
	return t, err
}

func findTemplate(ctx context.Context, tx pgx.Tx, app, name string) (*template.Template, error) {
	found, err := collect(ctx, tx, readTemplate, selectTemplates+" AND name = $2", app, name)
	if err == nil && len(found) == 0 {
		err = template.ErrUnknown
	}
	if err != nil {
		return nil, err
	}
	return &found[0], nil
}

func readTemplate(row pgx.CollectableRow) (t template.Template, err error) {
	var created, updated int64
	var says string
	if err := row.Scan(&t.App, &t.Name, &t.Revision, &says, &created, &updated); err != nil {
		return t, err
	}
	t.CreatedAt, t.UpdatedAt = fromMillis(created), fromMillis(updated)
	return t, appjson.ReadTemplate(&t, says)
}

// Templates reads a page of an app's templates.
func (s *Store) Templates(ctx context.Context, app, after string, limit int) (list []template.Template, err error) {
	err = s.db.Read(ctx, "read templates", func(ctx context.Context, tx pgx.Tx) (err error) {
		list, err = collect(ctx, tx, readTemplate, selectTemplates+" AND name > $2 ORDER BY name LIMIT $3", app, after, limit)
		return err
	})
	return list, err
}

// UpdateTemplate changes or makes a template of an app. Nobody is told: what is kept of one is read anew after a second.
func (s *Store) UpdateTemplate(ctx context.Context, app, name string, change func(t *template.Template, others int) error) error {
	return s.change(ctx, "change template "+name, func(ctx context.Context, tx pgx.Tx) (bool, error) {
		if err := lockApp(ctx, tx, app); err != nil {
			return false, err
		}
		var others int
		if err := tx.QueryRow(ctx, "SELECT count(*) FROM template WHERE app = $1 AND name <> $2", app, name).Scan(&others); err != nil {
			return false, err
		}
		one, err := findTemplate(ctx, tx, app, name)
		if errors.Is(err, template.ErrUnknown) {
			one, err = &template.Template{App: app, Name: name}, nil
		}
		if err != nil {
			return false, err
		}
		if err := change(one, others); err != nil {
			return false, err
		}
		says, err := appjson.Template(one)
		if err != nil {
			return false, err
		}
		_, err = tx.Exec(ctx, `INSERT INTO template (app, name, revision, content, created_at, updated_at) VALUES ($1, $2, $3, $4, $5, $6)
			ON CONFLICT (app, name) DO UPDATE SET revision = excluded.revision, content = excluded.content, updated_at = excluded.updated_at`,
			app, name, one.Revision, says, one.CreatedAt.UnixMilli(), one.UpdatedAt.UnixMilli())
		return false, err
	})
}

// DeleteTemplate deletes a template of an app.
func (s *Store) DeleteTemplate(ctx context.Context, app, name string, check func(*template.Template) error) error {
	return s.change(ctx, "delete template "+name, func(ctx context.Context, tx pgx.Tx) (bool, error) {
		if err := lockApp(ctx, tx, app); err != nil {
			return false, err
		}
		t, err := findTemplate(ctx, tx, app, name)
		if err == nil {
			err = check(t)
		}
		if err != nil {
			return false, err
		}
		_, err = tx.Exec(ctx, "DELETE FROM template WHERE app = $1 AND name = $2", app, name)
		return false, err
	})
}
