package eventdb

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/store/eventlog"
)

const (
	gatherFor  = 5 * time.Millisecond   // wait of events for others with which they share a commit
	writeEvery = 100 * time.Millisecond // interval of a node's commits, each of which locks a row shared by all nodes
	writeBytes = 1 << 20                // limits one commit, so that other nodes do not wait longer
	retryAfter = time.Second            // after a write that failed
	closeFor   = 5 * time.Second        // limits the tries of Close to write the queue
	checkEvery = 10 * time.Second       // interval of checks whether a crash of the database has undone confirmed commits
)

// write stores emitted events until the log closes.
func (l *Log) write() {
	defer l.stop()
	var last time.Time
	check := time.NewTicker(checkEvery)
	defer check.Stop()
	for {
		select {
		case <-check.C:
			l.check()
		case <-l.closing:
			l.writeLast()
			return
		case <-l.queue.Wake():
			l.pause(max(gatherFor, writeEvery-time.Since(last)))
			last = time.Now()
			l.writeQueued()
		}
	}
}

// pause waits for d, or until the log closes.
func (l *Log) pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.closing:
	}
}

// writeQueued stores the queued events, and tries again until it succeeds or the log closes. Meanwhile the queue fills and then drops its
// oldest events.
func (l *Log) writeQueued() {
	taken := l.db.Now()
	chunks, _ := l.queue.Take()
	for failed := false; len(chunks) > 0; {
		left, err := l.store(l.life, chunks, taken)
		chunks = left
		if err == nil {
			return
		}
		if !failed {
			l.cfg.Log.ErrorContext(l.life, "events could not be written; trying again", "error", err)
		}
		failed = true
		l.pause(retryAfter)
		select {
		case <-l.closing:
			l.writeAtLast(chunks, taken)
			return
		default:
		}
	}
}

func (l *Log) writeLast() {
	taken := l.db.Now()
	chunks, _ := l.queue.Take()
	l.writeAtLast(chunks, taken)
}

func (l *Log) writeAtLast(chunks []*eventlog.Chunk, taken time.Time) {
	defer l.ended()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(l.life), closeFor)
	defer cancel()
	if left, err := l.store(ctx, chunks, taken); err != nil {
		l.queue.Dropped(left)
		l.cfg.Log.ErrorContext(ctx, "the last events could not be written", "error", err)
	}
}

// store commits chunks that were taken at a time, slice by slice, and informs the followers; it returns the uncommitted ones. It does not
// store a slice again if an earlier attempt committed it but got no answer.
func (l *Log) store(ctx context.Context, chunks []*eventlog.Chunk, taken time.Time) (left []*eventlog.Chunk, err error) {
	for len(chunks) > 0 {
		n, bytes := 0, 0
		for n < len(chunks) && bytes < writeBytes {
			bytes += len(chunks[n].Data)
			n++
		}
		whole := taken.UnixMilli()
		if n < len(chunks) {
			whole = 0 // the remaining chunks were taken at the same time
		}
		did, err := l.insert(ctx, chunks[:n], bytes, whole)
		switch {
		case err != nil:
			return chunks, err
		case did.unknown:
			if err := l.reborn(ctx); err != nil {
				return chunks, err
			}
			continue
		case did.cutoff > 0:
			if err := l.refused(ctx, chunks[:n], did.cutoff); err != nil {
				return chunks, err
			}
			chunks = chunks[n:]
			continue
		}
		l.batch++
		l.whole = max(l.whole, whole)
		l.queue.Written(chunks[:n])
		l.stored(ctx, did.chunks, did.before, did.last)
		chunks = chunks[n:]
	}
	return nil, nil
}

// did is the result of a commit of events.
type did struct {
	chunks       []*eventlog.Chunk
	before, last uint64 // 0: another attempt has committed them
	unknown      bool   // nothing was committed: this server's row is no longer in the database
	cutoff       int64  // above 0: nothing was committed, since some events happened before this time, in milliseconds; see event.Repairable
}

// insertChunks first counts the commit. It stores nothing if that commit was already counted; a gap before the commit's number shows that
// other commits are lost. It neither stores nor counts anything if an event happened before the cutoff.
const insertChunks = `WITH log AS MATERIALIZED (
		SELECT cutoff FROM head FOR UPDATE
	), turn AS (
		UPDATE emitter AS e SET batch = $8, lost = greatest(e.lost, $9 + (e.batch < $8 - 1)::int),
			whole = CASE WHEN $10::bigint > 0 AND e.batch = $8 - 1 AND e.mended >= greatest(e.lost, $9) THEN $10 ELSE e.whole END
		WHERE boot = $7 AND batch < $8 AND (SELECT cutoff FROM log) <= $11 RETURNING lost
	), head AS (
		UPDATE head SET before = last, last = greatest(last, $1) + $2, bytes = bytes + $3 WHERE EXISTS (SELECT FROM turn) RETURNING before, last
	), added AS (
		INSERT INTO chunk (id, app, data) SELECT head.last - $2 + new.upto, new.app, new.data
		FROM head, unnest($4::bigint[], $5::text[], $6::bytea[]) AS new (upto, app, data)
	)
	SELECT before, last, lost FROM head, turn`

// commitSettings are those of a commit of events. PostgreSQL's own choice is to plan insertChunks anew each time, which takes it as long as to execute it.
const commitSettings = "SELECT set_config('synchronous_commit', 'off', true), set_config('plan_cache_mode', 'force_generic_plan', true)"

// insert stores chunks and assigns their ids, in one round trip. The head's row is locked until the commit, which does not wait for the
// disk: a crash of the database may lose the last events, just as a node's crash loses those that it had not stored yet. whole is a time:
// with this commit, all events from before it are stored. 0: the commit does not change that time.
func (l *Log) insert(ctx context.Context, chunks []*eventlog.Chunk, bytes int, whole int64) (d did, err error) {
	total := int64(0)
	upto, apps, data := make([]int64, len(chunks)), make([]string, len(chunks)), make([][]byte, len(chunks))
	for i, c := range chunks {
		total += int64(c.N)
		upto[i], apps[i], data[i] = total, c.App, c.Data
	}
	// From the time, so that ids increase even if the last commits were lost.
	base := max(l.db.Now().UnixMilli(), 0) << eventlog.IDShift
	batch := &pgx.Batch{}
	batch.Queue(commitSettings)
	sent := l.lost()
	batch.Queue(insertChunks, base, total, int64(bytes), upto, apps, data, l.cfg.Boot, l.batch+1, sent, whole, oldestOf(chunks))
	batch.Queue("SELECT cutoff, (SELECT batch FROM emitter WHERE boot = $1) FROM head", l.cfg.Boot)
	var was, is, lost, cutoff int64
	var counted *int64 // number of this server's commits; nil: it has no row in the database
	stored := false
	err = l.db.Send(ctx, "store events", batch, func(results pgx.BatchResults) error {
		if _, err := results.Exec(); err != nil {
			return err
		}
		err := results.QueryRow().Scan(&was, &is, &lost)
		if stored = err == nil; err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		return results.QueryRow().Scan(&cutoff, &counted)
	})
	switch {
	case err != nil:
		return did{}, err
	case counted == nil:
		return did{unknown: true}, nil
	case !stored && *counted <= l.batch:
		return did{cutoff: cutoff}, nil
	case !stored:
		return did{}, nil
	}
	l.gone.Add(lost - sent)
	for i, c := range chunks {
		c.Last = uint64(is - total + upto[i]) // positive
	}
	return did{chunks: chunks, before: uint64(was), last: uint64(is)}, nil // positive
}
