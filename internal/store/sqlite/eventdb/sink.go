package eventdb

import (
	"context"
	"encoding/json"
	"fmt"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/feeds/sink"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

var _ sink.ProgressStore = (*Log)(nil)

// sinkTable holds the progress of sinks in this log, as hookTable does for hooks, and its owners.
const sinkTable = `
CREATE TABLE sink (
	app      TEXT NOT NULL,
	kind     TEXT NOT NULL,
	epoch    INTEGER NOT NULL, -- a higher one takes over from a lower one
	progress TEXT NOT NULL,    -- JSON
	PRIMARY KEY (app, kind)
) STRICT, WITHOUT ROWID;
`

// OwnSinkProgress implements sink.ProgressStore.
func (l *Log) OwnSinkProgress(ctx context.Context, app, kind string) (epoch int64, p *sink.Progress, err error) {
	err = l.db.DoFor(ctx, app, func(c *sqlite.Conn) error {
		return sqlitedb.Each(c, `INSERT INTO sink(app, kind, epoch, progress) VALUES (?, ?, 1, '') ON CONFLICT (app, kind) DO UPDATE SET epoch = epoch + 1
			RETURNING epoch, progress`, []any{app, kind}, func(row *sqlite.Stmt) (err error) {
			epoch = row.ColumnInt64(0)
			p, err = sink.ReadProgress(app, kind, row.ColumnText(1))
			return err
		})
	})
	if err != nil {
		return 0, nil, fmt.Errorf("own progress of sink %s: %w", kind, err)
	}
	return epoch, p, nil
}

// SaveSinkProgress implements sink.ProgressStore.
func (l *Log) SaveSinkProgress(ctx context.Context, app, kind string, epoch int64, p *sink.Progress) error {
	b, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("save progress of sink %s: %w", kind, err)
	}
	owns := false
	err = l.db.DoFor(ctx, app, func(c *sqlite.Conn) error {
		err := sqlitedb.Each(c, "UPDATE sink SET progress = ? WHERE app = ? AND kind = ? AND epoch = ?", []any{string(b), app, kind, epoch}, nil)
		owns = c.Changes() > 0
		return err
	})
	if err == nil && !owns {
		err = sink.ErrFormer
	}
	if err != nil {
		return fmt.Errorf("save progress of sink %s: %w", kind, err)
	}
	return nil
}

// SinkProgress implements sink.ProgressStore.
func (l *Log) SinkProgress(ctx context.Context, app, kind string) (p *sink.Progress, err error) {
	err = l.db.ReadFor(ctx, app, func(c *sqlite.Conn) error {
		return sqlitedb.Each(c, "SELECT progress FROM sink WHERE app = ? AND kind = ?", []any{app, kind}, func(row *sqlite.Stmt) (err error) {
			p, err = sink.ReadProgress(app, kind, row.ColumnText(0))
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read progress of sink %s: %w", kind, err)
	}
	return p, nil
}
