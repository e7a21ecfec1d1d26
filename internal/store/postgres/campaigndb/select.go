package campaigndb

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/endpoint"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/store/endpointrow"
	"godwit.dev/godwit/internal/store/postgres/pgdb"
	"godwit.dev/godwit/internal/store/segment"
)

// dialect is PostgreSQL's. A page reads the source's entries first, whatever the planner estimates for the rest: they are never more than
// the window has.
var dialect = &segment.Dialect{
	Position: "strpos", Active: "e.active", Disabled: "NOT e.active", Filter: "e.active", Join: " JOIN ",
	Order: "e.number",
	Each:  " OFFSET 0", // makes PostgreSQL run the subquery for each row, even if the planner would prefer to run it once for all
	In:    func(column string, values []string) segment.Clause { return segment.That(column+" = ANY(?)", values) },
	IDs: func(column string, ids []audience.ID) segment.Clause {
		list := make([][]byte, len(ids))
		for i := range ids {
			list[i] = ids[i][:]
		}
		return segment.That(column+" = ANY(?)", list)
	},
	Among: func(p *segment.Plan, what string, after, upto int64, entries int) segment.Clause {
		window := p.Where.And(segment.That(p.Number+" > ? AND "+p.Number+" <= ?", after, upto))
		rest, joined := p.Rest("w.number"), " JOIN endpoint e ON e.number = w.number"
		if segment.Bare(what, rest) {
			joined = ""
		}
		return segment.That("SELECT "+what+" FROM (SELECT "+p.Number+" FROM "+p.From+" WHERE "+window.SQL+
			" ORDER BY "+p.Number+" LIMIT ?) w(number)"+joined+" WHERE true", append(window.Args, entries)...).And(rest)
	},
}

// selecting is a segment.Reader.
type selecting struct {
	ctx context.Context // it is made for one call
	q   pgdb.Querier
}

func (r selecting) each(query segment.Clause, row func(pgx.Rows) error) error {
	return pgdb.Each(r.ctx, r.q, numbered(query.SQL), append([]any{pgx.QueryExecModeDescribeExec}, query.Args...), row)
}

func (r selecting) Number(query segment.Clause) (n int64, found bool, err error) {
	err = r.each(query, func(rows pgx.Rows) error {
		found = true
		return rows.Scan(&n)
	})
	return n, found, err
}

func (r selecting) Endpoints(query segment.Clause) (list []audience.Endpoint, err error) {
	err = r.each(query, func(rows pgx.Rows) error {
		e, err := scanEndpoint(rows)
		list = append(list, e)
		return err
	})
	return list, err
}

func (r selecting) Channels(query segment.Clause) (map[push.Channel]int64, error) {
	n := make(map[push.Channel]int64)
	err := r.each(query, func(rows pgx.Rows) error { return scanCount(rows, n) })
	return n, err
}

func scanCount(rows pgx.Rows, n map[push.Channel]int64) error {
	var channel push.Channel
	var count int64
	err := rows.Scan(&channel, &count)
	n[channel] = count
	return err
}

// numbered writes the placeholders of arguments in PostgreSQL's form.
func numbered(sql string) string {
	var b strings.Builder
	for n := 1; ; n++ {
		before, after, more := strings.Cut(sql, "?")
		b.WriteString(before)
		if !more {
			return b.String()
		}
		b.WriteString("$" + strconv.Itoa(n))
		sql = after
	}
}

// SelectEndpoints reads the next active endpoints of an audience: see segment.Select.
func (s *Store) SelectEndpoints(ctx context.Context, app string, sel *audience.Selection, after int64, limit int) (list []audience.Endpoint, next int64, more bool, err error) {
	list, next, more, err = segment.Select(selecting{ctx, s.db.Pool()}, dialect, app, sel, after, limit)
	if err != nil {
		return nil, after, false, fmt.Errorf("read audience: %w", s.db.Known(err))
	}
	return list, next, more, nil
}

// CountEndpoints implements endpoint.Store. It ends early when ctx does.
func (s *Store) CountEndpoints(ctx context.Context, app string, sel *audience.Selection) (n map[push.Channel]int64, err error) {
	err = s.db.Read(ctx, "count audience", func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, planFreely); err != nil {
			return err
		}
		all, err := endpointCounts(ctx, tx, app, true)
		if err == nil {
			n, err = segment.Count(selecting{ctx, tx}, dialect, app, sel, all)
		}
		return err
	})
	return n, err
}

// CountPart implements endpoint.Store.
func (s *Store) CountPart(ctx context.Context, app string, sel *audience.Selection, after int64) (part endpoint.Part, err error) {
	all, err := endpointCounts(ctx, s.db.Pool(), app, true)
	if err == nil {
		part, err = segment.CountPart(selecting{ctx, s.db.Pool()}, dialect, app, sel, all, after)
	}
	if err != nil {
		return part, fmt.Errorf("count audience: %w", s.db.Known(err))
	}
	return part, nil
}

// endpointCounts reads the numbers of an app's active or disabled endpoints by channel.
func endpointCounts(ctx context.Context, q pgdb.Querier, app string, active bool) (map[push.Channel]int64, error) {
	n := make(map[push.Channel]int64)
	err := pgdb.Each(ctx, q, "SELECT channel, n FROM endpoint_count WHERE app = $1 AND active = $2 AND n <> 0", []any{app, active}, func(rows pgx.Rows) error {
		return scanCount(rows, n)
	})
	return n, err
}

// EndpointCounts implements endpoint.Store.
func (s *Store) EndpointCounts(ctx context.Context, app string) (active, disabled map[push.Channel]int64, err error) {
	if active, err = endpointCounts(ctx, s.db.Pool(), app, true); err == nil {
		disabled, err = endpointCounts(ctx, s.db.Pool(), app, false)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("count endpoints: %w", s.db.Known(err))
	}
	return active, disabled, nil
}

// EndpointMetrics returns the figures of endpoints for a registry; they are the same on all nodes.
func (s *Store) EndpointMetrics() prometheus.Collector {
	return endpointrow.Metrics(s.log, func(ctx context.Context, each func(endpointrow.Count, float64)) error {
		return s.db.Each(ctx, "count endpoints", endpointrow.SumCounts, nil, func(rows pgx.Rows) error {
			var c endpointrow.Count
			var n float64
			err := rows.Scan(&c.Channel, &c.Active, &n)
			if err == nil {
				each(c, n)
			}
			return err
		})
	})
}
