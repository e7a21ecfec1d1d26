package eventdb

import (
	"context"
	"encoding/json"
	"fmt"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/hook"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

var _ hook.ProgressStore = (*Log)(nil)

// hookTable says how far hooks have come in this log. It lies beside the events, so that both go back together when
// a machine loses its last writes.
const hookTable = `
CREATE TABLE hook (
	app      TEXT NOT NULL,
	name     TEXT NOT NULL,
	progress TEXT NOT NULL, -- JSON
	PRIMARY KEY (app, name)
) STRICT, WITHOUT ROWID;
`

// HookProgress reads the progress of all hooks.
func (l *Log) HookProgress(ctx context.Context) (list []hook.Progress, err error) {
	err = l.db.Read(ctx, func(c *sqlite.Conn) error {
		list = nil
		return sqlitedb.Each(c, "SELECT app, name, progress FROM hook", nil, func(row *sqlite.Stmt) error {
			p := hook.Progress{App: row.ColumnText(0), Name: row.ColumnText(1)}
			if err := json.Unmarshal([]byte(row.ColumnText(2)), &p); err != nil {
				return fmt.Errorf("app %s: progress of hook %s is damaged", p.App, p.Name)
			}
			list = append(list, p)
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read progress of hooks: %w", err)
	}
	return list, nil
}

// SaveHookProgress writes the progress of some hooks and forgets that of others, given by app and name.
func (l *Log) SaveHookProgress(ctx context.Context, save []hook.Progress, forget [][2]string) error {
	err := l.db.Do(ctx, func(c *sqlite.Conn) error {
		for _, f := range forget {
			if err := sqlitedb.Each(c, "DELETE FROM hook WHERE app = ? AND name = ?", []any{f[0], f[1]}, nil); err != nil {
				return err
			}
		}
		for i := range save {
			b, err := json.Marshal(&save[i])
			if err != nil {
				return err
			}
			if err := sqlitedb.Each(c, "INSERT OR REPLACE INTO hook(app, name, progress) VALUES (?, ?, ?)", []any{save[i].App, save[i].Name, string(b)}, nil); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("save progress of hooks: %w", err)
	}
	return nil
}
