package campaigndb

import (
	"context"
	"fmt"
	"strings"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/endpoint"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/store/segment"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

// dialect is SQLite's dialect. A cross join makes SQLite read the scan first.
var dialect = &segment.Dialect{
	Position: "instr", Active: "e.active = 1", Disabled: "e.active = 0", Filter: "+e.active = 1", Join: " CROSS JOIN ",
	In: func(column string, values []string) segment.Clause {
		args := make([]any, len(values))
		for i, v := range values {
			args[i] = v
		}
		return segment.That(column+" IN (?"+strings.Repeat(", ?", len(args)-1)+")", args...)
	},
	IDs: func(column string, ids []audience.ID) segment.Clause {
		args := make([]any, len(ids))
		for i := range ids {
			args[i] = ids[i][:]
		}
		return segment.That(column+" IN (?"+strings.Repeat(", ?", len(args)-1)+")", args...)
	},
	Among: func(p *segment.Plan, what string, after, upto int64, _ int) segment.Clause {
		rest, from := p.Rest(p.Number), p.Joined()
		if segment.Bare(what, rest) {
			from = p.From
		}
		where := p.Where.And(segment.That(p.Number+" > ? AND "+p.Number+" <= ?", after, upto), rest)
		return segment.That("SELECT "+what+" FROM "+from+" WHERE "+where.SQL, where.Args...)
	},
}

// selecting is a segment.Reader.
type selecting struct{ c *sqlite.Conn }

func (r selecting) Number(query segment.Clause) (n int64, found bool, err error) {
	err = sqlitedb.EachOnce(r.c, query.SQL, query.Args, func(row *sqlite.Stmt) error {
		n, found = row.ColumnInt64(0), true
		return nil
	})
	return n, found, err
}

func (r selecting) Endpoints(query segment.Clause) (list []audience.Endpoint, err error) {
	err = sqlitedb.EachOnce(r.c, query.SQL, query.Args, func(row *sqlite.Stmt) error {
		e, err := readEndpoint(row)
		list = append(list, e)
		return err
	})
	return list, err
}

func (r selecting) Channels(query segment.Clause) (map[push.Channel]int64, error) {
	n := make(map[push.Channel]int64)
	err := sqlitedb.EachOnce(r.c, query.SQL, query.Args, func(row *sqlite.Stmt) error {
		n[push.Channel(row.ColumnText(0))] = row.ColumnInt64(1)
		return nil
	})
	return n, err
}

// SelectEndpoints reads the next active endpoints of an audience: see segment.Select.
func (s *Store) SelectEndpoints(ctx context.Context, app string, sel *audience.Selection, after int64, limit int) (list []audience.Endpoint, next int64, more bool, err error) {
	return s.selectEndpoints(ctx, app, sel, after, limit, segment.Select)
}

// picking is a function that reads a page of an audience: segment.Select or segment.List.
type picking func(r segment.Reader, d *segment.Dialect, app string, sel *audience.Selection, after int64, limit int) (list []audience.Endpoint, next int64, more bool, err error)

func (s *Store) selectEndpoints(ctx context.Context, app string, sel *audience.Selection, after int64, limit int, pick picking) (list []audience.Endpoint, next int64, more bool, err error) {
	err = s.db.ReadFor(ctx, app, func(c *sqlite.Conn) (err error) {
		list, next, more, err = pick(selecting{c}, dialect, app, sel, after, limit)
		return err
	})
	if err != nil {
		return nil, after, false, fmt.Errorf("read audience: %w", known(err))
	}
	return list, next, more, nil
}

// CountPart implements endpoint.Store.
func (s *Store) CountPart(ctx context.Context, app string, sel *audience.Selection, after int64) (part endpoint.Part, err error) {
	err = s.db.ReadFor(ctx, app, func(c *sqlite.Conn) error {
		all, err := endpointCounts(c, app, true)
		if err == nil {
			part, err = segment.CountPart(selecting{c}, dialect, app, sel, all, after)
		}
		return err
	})
	if err != nil {
		return part, fmt.Errorf("count audience: %w", known(err))
	}
	return part, nil
}

// CountEndpoints counts the active endpoints of an audience by channel. It stops when ctx ends.
func (s *Store) CountEndpoints(ctx context.Context, app string, sel *audience.Selection) (n map[push.Channel]int64, err error) {
	err = s.db.ReadFor(ctx, app, func(c *sqlite.Conn) (err error) {
		defer c.SetInterrupt(c.SetInterrupt(ctx.Done()))
		if n, err = endpointCounts(c, app, true); err == nil {
			n, err = segment.Count(selecting{c}, dialect, app, sel, n)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("count audience: %w", known(err))
	}
	return n, nil
}
