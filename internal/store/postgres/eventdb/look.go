package eventdb

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/store/eventlog"
)

const (
	lookEvery = 250 * time.Millisecond // interval of reads of other nodes' events, while there are followers
	lookFor   = 5 * time.Second        // a database that answers later counts as away
	// lookBack limits the age of other nodes' events that are read into memory. If there are more, for example on a node that was cut off,
	// followers read them from the database.
	lookBack   = 10 * time.Second
	lookChunks = 200
)

// stored adds the chunks that this node has just stored to memory. If other nodes have stored chunks in between, and somebody follows, it
// reads all of them from the database.
func (l *Log) stored(ctx context.Context, chunks []*eventlog.Chunk, before, last uint64) {
	l.looking.Lock()
	defer l.looking.Unlock()
	if followed := l.tails.Followed(); before == l.tails.Committed() || len(followed) == 0 {
		l.tails.Advance(slices.DeleteFunc(slices.Clone(chunks), func(c *eventlog.Chunk) bool { return !slices.Contains(followed, c.App) }), last, followed)
		return
	}
	if err := l.lookNow(ctx); err != nil {
		// Memory lags behind until the next read.
		l.want()
	}
}

// follow reads events that other nodes have stored, while there are followers.
func (l *Log) follow() {
	for {
		timer := time.NewTimer(lookEvery)
		select {
		case <-timer.C:
		case <-l.wanted:
		case <-l.closing:
			timer.Stop()
			return
		}
		timer.Stop()
		if len(l.tails.Followed()) == 0 {
			continue
		}
		_ = l.look(l.life, 0) // which logs it
	}
}

// want makes the next read happen at once.
func (l *Log) want() {
	select {
	case l.wanted <- struct{}{}:
	default:
	}
}

// look reads other nodes' events, unless the last read was less than within ago. It logs an error once until reads succeed again.
func (l *Log) look(ctx context.Context, within time.Duration) error {
	l.looking.Lock()
	defer l.looking.Unlock()
	if within > 0 && time.Since(l.looked) < within {
		return nil
	}
	// While the database does not answer, only one of the waiting callers queries it.
	if l.failed != nil && time.Since(l.looked) < retryAfter {
		return l.failed
	}
	err := l.lookNow(ctx)
	if ctx.Err() != nil {
		return err
	}
	if err != nil && l.failed == nil {
		l.cfg.Log.WarnContext(ctx, "events of other nodes cannot be read now", "error", err)
	}
	l.failed = err
	return err
}

// lookNow reads, in one snapshot, the id of the log's last event and the new events of followed apps. The caller holds looking.
func (l *Log) lookNow(ctx context.Context) error {
	defer func() { l.looked = time.Now() }()
	ctx, cancel := context.WithTimeout(ctx, lookFor)
	defer cancel()
	committed, followed := l.tails.Committed(), l.tails.Followed()
	var head uint64
	var chunks []*eventlog.Chunk
	// A transaction is begun again over another connection if a restart of the database has broken this one.
	query := &pgx.Batch{}
	query.Queue(`SELECT head.last, chunk.id, chunk.app, chunk.data FROM head
		LEFT JOIN chunk ON chunk.id > $1 AND chunk.app = ANY($2) AND head.last - $1 < $3 ORDER BY chunk.id LIMIT $4`,
		int64(committed), followed, lookBack.Milliseconds()<<eventlog.IDShift, lookChunks) // positive
	err := l.db.Send(ctx, "look for events of other nodes", query, func(results pgx.BatchResults) error {
		rows, err := results.Query()
		if err == nil {
			head, chunks, err = scan(rows)
		}
		return err
	})
	if err != nil {
		return err
	}
	if head == committed {
		return nil
	}
	if len(chunks) == lookChunks || head-committed >= uint64(lookBack.Milliseconds())<<eventlog.IDShift || head < committed {
		chunks, followed = nil, nil
	}
	l.tails.Advance(chunks, head, followed)
	return nil
}

func scan(rows pgx.Rows) (head uint64, chunks []*eventlog.Chunk, err error) {
	var last int64
	var id *int64
	var app *string
	var data []byte
	_, err = pgx.ForEachRow(rows, []any{&last, &id, &app, &data}, func() error {
		if head = uint64(last); id == nil { // positive
			return nil
		}
		c, err := eventlog.Stored(*app, string(data), uint64(*id)) // positive
		chunks = append(chunks, c)
		return err
	})
	return head, chunks, err
}
