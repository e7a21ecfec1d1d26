package loadgen

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/bench/latency"
)

// PostgresConfig sets the transactions that a database's application commits. Each publishes one notification.
type PostgresConfig struct {
	URL        string `json:"url"`
	SQL        string `json:"sql"`     // the one statement of a transaction; $1 is the body of the publish
	Writers    int    `json:"writers"` // number of connections
	Size       int    `json:"size"`    // bytes of data
	Prefix     string `json:"prefix"`  // of the recipients' names
	Recipients int    `json:"recipients"`
}

// PostgresWriters commit transactions, and note when the commits return.
type PostgresWriters struct {
	turns
	all   []*postgresWriter
	since *latency.Histogram // from a commit's return to the client

	mu        sync.Mutex
	committed map[int64]int64 // when commits returned whose notifications have not arrived, by when they were due
}

type postgresWriter struct {
	conn *pgx.Conn
	sql  string
	one  content
}

// NewPostgresWriters connects writers.
func NewPostgresWriters(ctx context.Context, cfg PostgresConfig) (*PostgresWriters, error) {
	if cfg.Recipients < 1 || cfg.Writers < 1 {
		return nil, errors.New("committing transactions needs writers and recipients")
	}
	p := &PostgresWriters{since: latency.New(), committed: make(map[int64]int64)}
	p.turns = turns{writers: min(cfg.Writers, cfg.Recipients), recipients: cfg.Recipients, latency: latency.New(), write: p.write}
	publish := PublishConfig{Size: max(cfg.Size, minData), Prefix: cfg.Prefix}
	for range p.writers {
		conn, err := pgx.Connect(ctx, cfg.URL)
		if err != nil {
			p.Close()
			return nil, fmt.Errorf("connect a writer to PostgreSQL: %w", err)
		}
		p.all = append(p.all, &postgresWriter{conn: conn, sql: cfg.SQL, one: publish.oneJSON()})
	}
	return p, nil
}

// closePatience limits how long a connection may take to end.
const closePatience = time.Second

// Close ends the connections.
func (p *PostgresWriters) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), closePatience)
	defer cancel()
	for _, w := range p.all {
		_ = w.conn.Close(ctx) // the server notices
	}
}

func (p *PostgresWriters) write(ctx context.Context, writer int, j job) error {
	w := p.all[writer]
	putStamp(w.one.bytes[w.one.stamps[0]:], j.due)
	putNumber(w.one.bytes[w.one.numbers[0]:], j.to)
	if _, err := w.conn.Exec(ctx, w.sql, string(w.one.bytes)); err != nil {
		return err
	}
	now := Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, arrived := p.committed[j.due]; arrived {
		delete(p.committed, j.due)
		p.since.Record(0)
		return nil
	}
	p.committed[j.due] = now
	return nil
}

// Arrived notes that a notification has reached its client. An arrival before the commit's return counts as 0.
func (p *PostgresWriters) Arrived(due, at int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	returned, ok := p.committed[due]
	if !ok {
		p.committed[due] = at
		return
	}
	delete(p.committed, due)
	p.since.Record(time.Duration(at - returned))
}

// TakeSince returns how long notifications took from their commit's return, since the last call.
func (p *PostgresWriters) TakeSince() *latency.Histogram { return p.since.Take() }
