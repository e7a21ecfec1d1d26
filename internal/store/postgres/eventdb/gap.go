package eventdb

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/event"
	"godwit.dev/godwit/internal/store/eventlog"
	"godwit.dev/godwit/internal/store/millis"
	"godwit.dev/godwit/internal/store/postgres/pgdb"
)

var _ event.Mendable = (*Log)(nil)

// upsertEmitter notes what is whole of a server's. Its row is made anew where another server took it for ended.
const upsertEmitter = `INSERT INTO emitter AS e (boot, whole, since, lost, mended) VALUES ($1, $2, $3, $4, $4)
	ON CONFLICT (boot) DO UPDATE SET lost = excluded.lost, whole = CASE WHEN e.mended >= excluded.lost THEN excluded.whole ELSE e.whole END`

// begin notes that this server emits events from now on. head is the newest id there is.
func (l *Log) begin(ctx context.Context, head uint64) error {
	now := l.db.Now()
	l.since = now.UnixMilli()
	if head > 0 {
		l.since = min(l.since, int64(head>>eventlog.IDShift)) //nolint:gosec // a time
	}
	_, err := l.db.Pool().Exec(ctx, upsertEmitter, l.cfg.Boot, now.UnixMilli(), l.since, 0)
	return pgdb.Error("note that events are emitted", err)
}

// advance notes, with what is stored, that all is there that was emitted before a time, unless something is lost.
func (l *Log) advance(batch *pgx.Batch, taken time.Time) {
	batch.Queue(upsertEmitter, l.cfg.Boot, taken.UnixMilli(), l.since, l.queue.Lost())
}

// ended takes the row away if nothing is lost.
func (l *Log) ended() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(l.life), closeFor)
	defer cancel()
	if _, err := l.db.Pool().Exec(ctx, "DELETE FROM emitter WHERE boot = $1 AND mended >= $2", l.cfg.Boot, l.queue.Lost()); err != nil {
		l.cfg.Log.WarnContext(ctx, "that the event log was closed could not be noted", "error", err)
	}
}

// Gaps implements event.Mendable.
func (l *Log) Gaps(ctx context.Context, alive func(context.Context) ([]string, error)) (gaps []event.Gap, err error) {
	rows, err := l.db.Pool().Query(ctx, "SELECT boot, whole, since, lost, mended FROM emitter")
	if err != nil {
		return nil, pgdb.Error("read what the event log lacks", err)
	}
	var all []event.Gap
	var g event.Gap
	var whole, since, mended int64
	mends := make(map[string]int64)
	_, err = pgx.ForEachRow(rows, []any{&g.Of, &whole, &since, &g.Lost, &mended}, func() error {
		g.From, g.Since = millis.Time(whole), millis.Time(since)
		all, mends[g.Of] = append(all, g), mended
		return nil
	})
	if err != nil {
		return nil, pgdb.Error("read what the event log lacks", err)
	}
	running := []string{l.cfg.Boot}
	if alive != nil {
		others, err := alive(ctx)
		if err != nil {
			return nil, err
		}
		running = append(running, others...)
	}
	for _, g := range all {
		if g.Of == l.cfg.Boot {
			g.Lost = l.queue.Lost()
		}
		if g.Ended = !slices.Contains(running, g.Of); g.Ended || g.Lost > mends[g.Of] {
			gaps = append(gaps, g)
		}
	}
	return gaps, nil
}

// Mended implements event.Mendable.
func (l *Log) Mended(ctx context.Context, gaps []event.Gap) error {
	for _, g := range gaps {
		sql, args := "UPDATE emitter SET mended = greatest(mended, $2) WHERE boot = $1", []any{g.Of, g.Lost}
		if g.Ended {
			sql, args = "DELETE FROM emitter WHERE boot = $1", args[:1]
		}
		if _, err := l.db.Pool().Exec(ctx, sql, args...); err != nil {
			return pgdb.Error("note that the event log lacks nothing", err)
		}
	}
	return nil
}

// Flush implements event.Mendable.
func (l *Log) Flush(ctx context.Context) error { return l.queue.Flush(ctx) }
