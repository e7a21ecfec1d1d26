package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"godwit.dev/godwit/internal/feeds/source"
)

// Limits of a preview.
const (
	previewRows   = 5                // of a table: enough to see whether the mapping is what was meant
	previewWithin = 15 * time.Second // all tables together: a person waits for it
	previewRow    = 1 << 20          // bytes of a row: four times what a notification may have
	previewAll    = 4 << 20          // bytes of all rows together, which one answer holds
	// previewBegin begins the transaction of a table. The server ends what takes long, also where a lock is waited for.
	previewBegin = "BEGIN READ ONLY; SET LOCAL statement_timeout = '5s'; SET LOCAL lock_timeout = '2s'"
)

var _ source.Previewer = Kind{}

// Preview implements source.Previewer.
func (Kind) Preview(ctx context.Context, t source.Target) ([]source.Sample, error) {
	tables, err := readTables(t.Values[FieldTables])
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, previewWithin, fmt.Errorf("the preview has taken %s", previewWithin))
	defer cancel()
	p := &preview{feed: feed{t: &t, types: make(map[uint32]own)}, room: previewAll}
	p.publication, _ = publication(&t)
	if p.c, err = connect(ctx, &t, false); err != nil {
		return nil, err
	}
	defer func() { p.c.close() }()
	samples := make([]source.Sample, len(tables))
	for i := range tables {
		samples[i].Table = tables[i].full()
		samples[i].Entries, samples[i].Err = p.table(ctx, &tables[i])
	}
	return samples, nil
}

// preview reads the first rows of tables.
type preview struct {
	feed
	room int // bytes of rows that may still be shown
}

func (p *preview) table(ctx context.Context, t *Table) (entries []source.Entry, err error) {
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case p.room <= 0:
		return nil, fmt.Errorf("the tables before it fill the %d MiB of a preview", previewAll>>20)
	case t.On != nil && len(t.On) == 0:
		return nil, errors.New("its on is empty: no change of a row becomes a notification")
	}
	if p.c.IsClosed() { // a row of the table before was too large
		c, err := connect(ctx, p.t, false)
		if err != nil {
			return nil, err
		}
		p.c = c
	}
	p.c.Frontend().SetMaxBodyLen(previewRow)
	if err := p.c.exec(ctx, previewBegin); err != nil {
		return nil, err
	}
	defer func() { _ = p.c.exec(ctx, "ROLLBACK") }() // a lost connection ends the transaction too
	columns, logged, err := p.columns(ctx, p.c, t)
	switch {
	case err != nil:
		return nil, err
	case len(columns) == 0:
		return nil, errors.New("the table does not exist, or the user may not see it")
	case !logged:
		return nil, errors.New("it is no table whose changes the log has: views, foreign, temporary and unlogged tables and those of the system have none there")
	}
	_, filter, err := p.published(ctx, p.c, t)
	if err != nil {
		return nil, err
	}
	rel, rows, err := p.c.read(ctx, fmt.Sprintf("SELECT %s FROM %s WHERE (%s) LIMIT %d", quotedAll(columns), t.qualified(), filter, previewRows), nil)
	var large *pgproto3.ExceededMaxBodyLenErr
	switch {
	case errors.As(err, &large):
		err = fmt.Errorf("a row has %d bytes; a preview shows rows of up to %d", large.ActualBodyLen, previewRow)
	case err != nil:
		return nil, needs(explain(err), "the user needs GRANT SELECT ON the table for a preview")
	}
	if err := p.resolve(ctx, rel); err != nil {
		return nil, err
	}
	m := mapped(t, rel)
	if m.err != nil {
		return nil, m.err
	}
	for _, texts := range rows {
		for _, e := range m.sample(texts) {
			p.room -= len(e.Text)
			entries = append(entries, e)
		}
	}
	return entries, err
}

// sample converts a row of the table as if it was inserted, or changed in the first way in which the mapping takes changes.
func (m *rows) sample(texts [][]byte) []source.Entry {
	c := change{kind: anInsert, row: valuesOf(texts)}
	if m.Recipient != "" && !m.takes(anInsert) {
		c.kind = operations[m.On[0]]
	}
	if c.kind == aDelete {
		c.old, c.row = c.row, nil
	}
	return m.entry(&c, source.Entry{From: m.full()})
}
