package eventdb

import (
	"context"
	"encoding/json"
	"fmt"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/feeds/hook"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

var _ hook.ProgressStore = (*Log)(nil)

// hookTable holds the progress of hooks in this log. It is in the events' file, so that both return to the same state if a machine loses
// its last writes.
const hookTable = `
CREATE TABLE hook (
	app      TEXT NOT NULL,
	name     TEXT NOT NULL,
	progress TEXT NOT NULL, -- JSON
	PRIMARY KEY (app, name)
) STRICT, WITHOUT ROWID;
`

// hookOwnerTable records who owns the progress of an app's hooks: a higher epoch takes over from a lower one.
const hookOwnerTable = `
CREATE TABLE hook_owner (
	app   TEXT PRIMARY KEY,
	epoch INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
`

const selectHooks = "SELECT app, name, progress FROM hook"

// HookProgress reads the progress of an app's hooks, or of all.
func (l *Log) HookProgress(ctx context.Context, app string) (list []hook.Progress, err error) {
	err = l.db.ReadFor(ctx, app, func(c *sqlite.Conn) error {
		if app == "" {
			list, err = hooksWhere(c, selectHooks)
		} else {
			list, err = hooksWhere(c, selectHooks+" WHERE app = ?", app)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read progress of hooks: %w", err)
	}
	return list, nil
}

func hooksWhere(c *sqlite.Conn, query string, args ...any) (list []hook.Progress, err error) {
	err = sqlitedb.Each(c, query, args, func(row *sqlite.Stmt) error {
		p := hook.Progress{App: row.ColumnText(0), Name: row.ColumnText(1)}
		if err := json.Unmarshal([]byte(row.ColumnText(2)), &p); err != nil {
			return fmt.Errorf("app %s: progress of hook %s is damaged", p.App, p.Name)
		}
		list = append(list, p)
		return nil
	})
	return list, err
}

// OwnHookProgress gives the progress of an app's hooks a new owner.
func (l *Log) OwnHookProgress(ctx context.Context, app string) (epoch int64, list []hook.Progress, err error) {
	err = l.db.DoFor(ctx, app, func(c *sqlite.Conn) error {
		err := sqlitedb.Each(c, "INSERT INTO hook_owner(app, epoch) VALUES (?, 1) ON CONFLICT (app) DO UPDATE SET epoch = epoch + 1 RETURNING epoch",
			[]any{app}, func(row *sqlite.Stmt) error {
				epoch = row.ColumnInt64(0)
				return nil
			})
		if err == nil {
			list, err = hooksWhere(c, selectHooks+" WHERE app = ?", app)
		}
		return err
	})
	if err != nil {
		return 0, nil, fmt.Errorf("own progress of hooks: %w", err)
	}
	return epoch, list, nil
}

// SaveHookProgress writes the progress that owners want to save, and returns the apps whose owner has changed.
func (l *Log) SaveHookProgress(ctx context.Context, list []hook.Saving) (former []string, err error) {
	err = l.db.Do(ctx, func(c *sqlite.Conn) error {
		former = nil
		for i := range list {
			owns := false
			err := sqlitedb.Each(c, "SELECT 1 FROM hook_owner WHERE app = ? AND epoch = ?", []any{list[i].App, list[i].Epoch}, func(*sqlite.Stmt) error {
				owns = true
				return nil
			})
			if err != nil {
				return err
			}
			if !owns {
				former = append(former, list[i].App)
				continue
			}
			if err := saveHooks(c, &list[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("save progress of hooks: %w", err)
	}
	return former, nil
}

func saveHooks(c *sqlite.Conn, s *hook.Saving) error {
	for _, name := range s.Forget {
		if err := sqlitedb.Each(c, "DELETE FROM hook WHERE app = ? AND name = ?", []any{s.App, name}, nil); err != nil {
			return err
		}
	}
	for i := range s.Save {
		b, err := json.Marshal(&s.Save[i])
		if err != nil {
			return err
		}
		if err := sqlitedb.Each(c, "INSERT OR REPLACE INTO hook(app, name, progress) VALUES (?, ?, ?)", []any{s.App, s.Save[i].Name, string(b)}, nil); err != nil {
			return err
		}
	}
	return nil
}
