package eventdb

import (
	"context"
	"time"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/store/eventlog"
)

const (
	gatherFor  = 25 * time.Millisecond // how long events wait to share a commit with others
	retryAfter = time.Second           // after a write that failed
	closeFor   = 5 * time.Second       // how long Close tries to write the queued events
)

// run writes emitted events until the log closes.
func (l *Log) run() {
	defer close(l.done)
	ctx := context.Background()
	tick := time.NewTicker(pruneEvery)
	defer tick.Stop()
	for {
		select {
		case <-l.stop:
			l.writeLast()
			return
		case <-tick.C:
			l.packer.Rest()
			l.prune(ctx)
		case <-l.queue.Wake():
			l.pause(gatherFor)
			l.write(ctx)
		}
	}
}

// pause waits for d, or until the log closes.
func (l *Log) pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.stop:
	}
}

// write stores the queued events, and retries until it succeeds or the log closes. Meanwhile the queue fills and then drops its oldest
// events.
func (l *Log) write(ctx context.Context) {
	taken := l.opts.Now()
	chunks, upto := l.queue.Take()
	for first := true; len(chunks) > 0; first = false {
		err := l.store(ctx, chunks, upto, taken)
		if err == nil {
			return
		}
		if first {
			l.opts.Log.ErrorContext(ctx, "events could not be written; trying again", "error", err)
		}
		l.pause(retryAfter)
		select {
		case <-l.stop:
			if l.store(ctx, chunks, upto, taken) != nil {
				l.queue.Dropped(chunks)
			}
			return
		default:
		}
	}
}

func (l *Log) writeLast() {
	ctx, cancel := context.WithTimeout(context.Background(), closeFor)
	defer cancel()
	taken := l.opts.Now()
	chunks, upto := l.queue.Take()
	if len(chunks) > 0 {
		if err := l.store(ctx, chunks, upto, taken); err != nil {
			l.queue.Dropped(chunks)
			l.opts.Log.ErrorContext(ctx, "the last events could not be written", "error", err)
		}
	}
	if err := l.ended(ctx); err != nil { // if this fails, the next start assumes a crash, searches for missing events and finds none
		l.opts.Log.WarnContext(ctx, "that the event log was closed could not be noted", "error", err)
	}
}

// store commits chunks that were taken at a time and informs the followers. Chunks without room are dropped.
func (l *Log) store(ctx context.Context, chunks []*eventlog.Chunk, upto uint64, taken time.Time) error {
	bytes, packed := int64(0), make([][]byte, len(chunks))
	for i, c := range chunks {
		packed[i] = l.packer.Pack(c.Data)
		bytes += int64(len(packed[i]))
	}
	made, err := l.makeRoom(ctx, bytes)
	if err != nil {
		return err
	}
	if !made {
		l.queue.Dropped(chunks)
		return nil
	}
	if err := l.db.Do(ctx, func(c *sqlite.Conn) error {
		if err := insert(c, chunks, packed); err != nil {
			return err
		}
		return l.advance(c, upto, taken)
	}); err != nil {
		return err
	}
	l.queue.Written(chunks)
	l.tails.Publish(chunks, upto)
	return nil
}

func insert(conn *sqlite.Conn, chunks []*eventlog.Chunk, packed [][]byte) error {
	// OR REPLACE, since a commit that was reported as failed may have succeeded, and is retried.
	stmt, err := conn.Prepare("INSERT OR REPLACE INTO chunk(id, app, data) VALUES (?, ?, ?)")
	if err != nil {
		return err
	}
	for i, c := range chunks {
		stmt.BindInt64(1, int64(c.Last)) // milliseconds since 1970, shifted: fits until the year 2248
		stmt.BindText(2, c.App)
		stmt.BindBytes(3, packed[i])
		if _, err := stmt.Step(); err != nil {
			return err
		}
		if err := stmt.Reset(); err != nil {
			return err
		}
	}
	return nil
}
