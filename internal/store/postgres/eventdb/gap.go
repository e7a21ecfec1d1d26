package eventdb

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/feeds/event"
	"godwit.dev/godwit/internal/store/eventlog"
	"godwit.dev/godwit/internal/store/millis"
	"godwit.dev/godwit/internal/store/postgres/pgdb"
)

var _ event.Repairable = (*Log)(nil)

// insertEmitter records that a server emits events. lost: some of them may be missing.
const insertEmitter = `INSERT INTO emitter (boot, whole, since, lost, mended, batch) VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (boot) DO NOTHING`

// begin records that this server emits events from now on. head is the newest existing id.
func (l *Log) begin(ctx context.Context, head uint64) error {
	now := l.db.Now()
	l.since = now.UnixMilli()
	if head > 0 {
		l.since = min(l.since, int64(head>>eventlog.IDShift)) // a time
	}
	l.whole = now.UnixMilli()
	_, err := l.db.Pool().Exec(ctx, insertEmitter, l.cfg.Boot, l.whole, l.since, 0, 0, 0)
	return pgdb.Error("note that events are emitted", err)
}

// lost counts the events lost since the start.
func (l *Log) lost() int64 { return l.queue.Lost() + l.gone.Load() }

// reborn inserts this server's row again after another server, which believed this one dead, has deleted it. Events since the log was last
// whole count as lost: the other node may have restored some of them.
func (l *Log) reborn(ctx context.Context) error {
	mended := l.lost()
	l.gone.Add(1)
	_, err := l.db.Pool().Exec(ctx, insertEmitter, l.cfg.Boot, l.whole, l.since, l.lost(), mended, l.batch)
	return pgdb.Error("note that events are emitted again", err)
}

// check finds out whether the database has lost commits that it had confirmed, as may happen in a crash. The next commit would find out
// too, but there may be none.
func (l *Log) check() {
	ctx, cancel := context.WithTimeout(l.life, lookFor)
	defer cancel()
	tag, err := l.db.Pool().Exec(ctx, "UPDATE emitter SET lost = greatest(lost, $3), batch = $2 WHERE boot = $1 AND batch < $2", l.cfg.Boot, l.batch, l.lost()+1)
	if err == nil && tag.RowsAffected() > 0 {
		l.gone.Add(1)
	}
}

// ended deletes this server's row if nothing is lost.
func (l *Log) ended() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(l.life), closeFor)
	defer cancel()
	if _, err := l.db.Pool().Exec(ctx, "DELETE FROM emitter WHERE boot = $1 AND mended >= greatest(lost, $2)", l.cfg.Boot, l.lost()); err != nil {
		l.cfg.Log.WarnContext(ctx, "that the event log was closed could not be noted", "error", err)
	}
}

// Gaps implements event.Repairable.
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
			g.Lost = max(g.Lost, l.lost())
		}
		if g.Ended = !slices.Contains(running, g.Of); g.Ended || g.Lost > mends[g.Of] {
			gaps = append(gaps, g)
		}
	}
	return gaps, nil
}

// Repaired implements event.Repairable.
func (l *Log) Repaired(ctx context.Context, gaps []event.Gap) error {
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

// CutOff implements event.Repairable.
func (l *Log) CutOff(ctx context.Context, age time.Duration) (time.Time, error) {
	at := l.db.Now().Add(-age).Truncate(time.Millisecond)
	_, err := l.db.Pool().Exec(ctx, "UPDATE head SET cutoff = greatest(cutoff, $1)", at.UnixMilli())
	return at, pgdb.Error("have the event log refuse what is made anew", err)
}

// refused drops the events of chunks from before the log's cutoff, and emits the others again. It records the dropped ones as missing, so
// that they are restored.
func (l *Log) refused(ctx context.Context, chunks []*eventlog.Chunk, cutoff int64) error {
	oldest := oldestOf(chunks)
	l.gone.Add(1)
	l.whole, l.since = min(l.whole, oldest), min(l.since, oldest)
	_, err := l.db.Pool().Exec(ctx, "UPDATE emitter SET lost = greatest(lost, $2), whole = least(whole, $3), since = least(since, $3) WHERE boot = $1",
		l.cfg.Boot, l.lost(), oldest)
	if err != nil {
		return pgdb.Error("note that events came too late", err)
	}
	l.queue.Written(chunks)
	l.queue.Emit(eventlog.Only(chunks, func(e *event.Event) bool {
		return !e.Repeatable() || e.At.UnixMilli() >= cutoff
	}))
	return nil
}

// oldestOf returns the time of the earliest repeatable event of chunks, in milliseconds.
func oldestOf(chunks []*eventlog.Chunk) int64 {
	oldest := int64(math.MaxInt64)
	for _, c := range chunks {
		if c.Oldest != 0 {
			oldest = min(oldest, c.Oldest)
		}
	}
	return oldest
}

// Flush implements event.Repairable.
func (l *Log) Flush(ctx context.Context) error { return l.queue.Flush(ctx) }
