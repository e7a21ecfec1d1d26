package eventdb

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/store/eventlog"
)

const (
	pruneEvery = 10 * time.Second
	pruneRows  = 500 // deleted in one commit
	pruneMost  = 100 // such commits in one go
)

// retain deletes events that are too old or too many. Any node does this, one at a time.
func (l *Log) retain() {
	tick := time.NewTicker(pruneEvery)
	defer tick.Stop()
	for {
		select {
		case <-l.closing:
			return
		case <-tick.C:
			if err := l.prune(l.life); err != nil && l.life.Err() == nil {
				l.cfg.Log.WarnContext(l.life, "old events could not be deleted", "error", err)
			}
		}
	}
}

// Gone implements event.Forgetful.
func (l *Log) Gone(ctx context.Context) (uint64, error) {
	var id int64
	if err := l.db.Pool().QueryRow(ctx, "SELECT gone FROM head").Scan(&id); err != nil {
		return 0, fmt.Errorf("read which events were deleted: %w", err)
	}
	return uint64(id), nil // written by us, positive
}

func (l *Log) prune(ctx context.Context) error {
	oldest := max(l.db.Now().Add(-l.cfg.MaxAge).UnixMilli(), 0) << eventlog.IDShift
	for range pruneMost {
		deleted, err := l.deleteOldest(ctx, oldest)
		if err != nil || deleted < pruneRows {
			return err
		}
	}
	return nil
}

// pruneLock is the first half of the advisory lock for deleting: "GwEv".
const pruneLock = 0x47774576

// deleteOldest deletes a slice of the chunks whose last event has an id below before, or of the oldest chunks if all together are too
// large.
func (l *Log) deleteOldest(ctx context.Context, before int64) (n int, err error) {
	err = l.db.Do(ctx, "delete old events", func(ctx context.Context, tx pgx.Tx) error {
		n = 0
		var used, deleted, gone int64
		alone := false
		if err := tx.QueryRow(ctx, "SELECT pg_try_advisory_xact_lock(($1::bigint << 32) + 'head'::regclass::oid::bigint)", pruneLock).Scan(&alone); err != nil || !alone {
			return err
		}
		if err := tx.QueryRow(ctx, "SELECT bytes FROM head").Scan(&used); err != nil {
			return err
		}
		// If there are too many bytes, only as many chunks are deleted as necessary: the running sum shows how many.
		err := tx.QueryRow(ctx, `WITH oldest AS (
				SELECT id, octet_length(data) AS bytes FROM chunk ORDER BY id LIMIT $1
			), upto AS (
				SELECT id, sum(bytes) OVER (ORDER BY id) - bytes AS upto FROM oldest
			), gone AS (
				DELETE FROM chunk USING upto WHERE chunk.id = upto.id AND (upto.id < $2 OR upto.upto < $3) RETURNING chunk.id, octet_length(data) AS bytes
			)
			SELECT count(*), coalesce(sum(bytes), 0), coalesce(max(id), 0) FROM gone`, pruneRows, before, used-l.cfg.MaxBytes).Scan(&n, &deleted, &gone)
		if err != nil || n == 0 {
			return err
		}
		_, err = tx.Exec(ctx, "UPDATE head SET bytes = bytes - $1, gone = greatest(gone, $2)", deleted, gone)
		return err
	})
	return n, err
}
