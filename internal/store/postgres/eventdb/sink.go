package eventdb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/feeds/sink"
	"godwit.dev/godwit/internal/store/postgres/pgdb"
)

var _ sink.ProgressStore = (*Log)(nil)

// At least the time, so that epochs increase even if the last commits were lost.
const ownSink = `INSERT INTO sink AS s (app, kind, epoch, progress) VALUES ($1, $2, $3, '')
	ON CONFLICT (app, kind) DO UPDATE SET epoch = greatest(s.epoch + 1, excluded.epoch) RETURNING epoch, progress`

// OwnSinkProgress implements sink.ProgressStore.
func (l *Log) OwnSinkProgress(ctx context.Context, app, kind string) (epoch int64, p *sink.Progress, err error) {
	var progress string
	if err := l.db.Pool().QueryRow(ctx, ownSink, app, kind, l.db.Now().UnixMilli()).Scan(&epoch, &progress); err != nil {
		return 0, nil, pgdb.Error("own progress of sink "+kind, err)
	}
	p, err = sink.ReadProgress(app, kind, progress)
	return epoch, p, err
}

// SaveSinkProgress implements sink.ProgressStore.
func (l *Log) SaveSinkProgress(ctx context.Context, app, kind string, epoch int64, p *sink.Progress) error {
	b, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("save progress of sink %s: %w", kind, err)
	}
	tag, err := l.db.Pool().Exec(ctx, "UPDATE sink SET progress = $4 WHERE app = $1 AND kind = $2 AND epoch = $3", app, kind, epoch, string(b))
	switch {
	case err != nil:
		return pgdb.Error("save progress of sink "+kind, err)
	case tag.RowsAffected() == 0:
		return fmt.Errorf("save progress of sink %s: %w", kind, sink.ErrFormer)
	}
	return nil
}

// SinkProgress implements sink.ProgressStore.
func (l *Log) SinkProgress(ctx context.Context, app, kind string) (*sink.Progress, error) {
	var progress string
	err := l.db.Pool().QueryRow(ctx, "SELECT progress FROM sink WHERE app = $1 AND kind = $2", app, kind).Scan(&progress)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, pgdb.Error("read progress of sink "+kind, err)
	}
	return sink.ReadProgress(app, kind, progress)
}
