package campaigndb

import (
	"context"
	"fmt"
	"strings"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/audience"
	"godwit.dev/godwit/internal/push"
	"godwit.dev/godwit/internal/store/endpointrow"
	"godwit.dev/godwit/internal/store/segment"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

// dialect is SQLite's. A cross join says that the source comes first.
var dialect = &segment.Dialect{
	Position: "instr", Active: "e.active = 1", Filter: "+e.active = 1", Join: " CROSS JOIN ",
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
	Page: func(p *segment.Plan, after, upto int64, _, limit int) segment.Clause {
		where := p.Where.And(segment.That(p.Number+" > ? AND "+p.Number+" <= ?", after, upto), p.Rest(p.Number))
		return segment.That("SELECT "+endpointrow.Columns+" FROM "+p.Joined()+" WHERE "+where.SQL+" ORDER BY "+p.Number+" LIMIT ?", append(where.Args, limit)...)
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
	err = s.db.ReadFor(ctx, app, func(c *sqlite.Conn) (err error) {
		list, next, more, err = segment.Select(selecting{c}, dialect, app, sel, after, limit)
		return err
	})
	if err != nil {
		return nil, after, false, fmt.Errorf("read audience: %w", known(err))
	}
	return list, next, more, nil
}

// CountEndpoints counts the active endpoints of an audience by channel. It ends early when ctx does.
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
