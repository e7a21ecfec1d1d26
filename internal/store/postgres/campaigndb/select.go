package campaigndb

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/audience"
	"godwit.dev/godwit/internal/push"
	"godwit.dev/godwit/internal/store/postgres/pgdb"
	"godwit.dev/godwit/internal/store/segment"
)

// minWindow is how many entries of an index one page looks at, at least: a condition that few meet ends with short
// pages rather than with long queries.
const minWindow = 5000

// selectEndpoints reads the next active endpoints of a selection after a number, in the order of numbers. A page may be
// short or empty although more follow: more says so, and next is where to go on.
func selectEndpoints(ctx context.Context, q pgdb.Querier, app string, sel *audience.Selection, after int64, limit int) (list []audience.Endpoint, next int64, more bool, err error) {
	p, err := newPlan(ctx, q, app, sel, true)
	if err != nil {
		return nil, after, false, err
	}
	entries := max(minWindow, 10*limit)
	upto, more, err := p.window(ctx, q, after, entries)
	if err != nil {
		return nil, after, false, err
	}
	before, c, end, args := p.page(after, upto, entries, limit)
	err = eachWhere(ctx, q, c, before, end, args, func(rows pgx.Rows) error {
		e, err := scanEndpoint(rows)
		list = append(list, e)
		return err
	})
	if err != nil {
		return nil, after, false, err
	}
	if len(list) == limit {
		return list, list[limit-1].Number, true, nil
	}
	return list, upto, more, nil
}

// page is the query for endpoints with numbers after one and up to another. The driver's entries are read first, whatever
// the planner thinks of the rest: there are never more of them than the window has.
func (p *plan) page(after, upto int64, entries, limit int) (before string, c segment.Clause, end string, args []any) {
	d := &p.driver
	window := d.where.And(segment.That(d.number+" > ? AND "+d.number+" <= ?", after, upto))
	before = "SELECT " + endpointColumns + " FROM (SELECT " + d.number + " AS number FROM " + d.from + " WHERE "
	c = segment.That(window.SQL+" ORDER BY "+d.number+" LIMIT ?) w JOIN endpoint e ON e.number = w.number WHERE true", append(window.Args, entries)...).
		And(p.rest("w.number"))
	return before, c, " ORDER BY e.number LIMIT ?", []any{limit}
}

// window returns the number up to which so many entries of the driver reach, and whether there are more.
func (p *plan) window(ctx context.Context, q pgdb.Querier, after int64, entries int) (upto int64, more bool, err error) {
	d := &p.driver
	where := d.where.And(segment.That(d.number+" > ?", after))
	err = eachWhere(ctx, q, where, "SELECT "+d.number+" FROM "+d.from+" WHERE ", " ORDER BY "+d.number+" LIMIT 1 OFFSET ?", []any{entries - 1}, func(rows pgx.Rows) error {
		more = true
		return rows.Scan(&upto)
	})
	if err == nil && !more {
		upto = 1<<63 - 1
	}
	return upto, more, err
}

// SelectEndpoints reads the next active endpoints of an audience: see selectEndpoints.
func (s *Store) SelectEndpoints(ctx context.Context, app string, sel *audience.Selection, after int64, limit int) (list []audience.Endpoint, next int64, more bool, err error) {
	list, next, more, err = selectEndpoints(ctx, s.db.Pool(), app, sel, after, limit)
	if err != nil {
		return nil, after, false, fmt.Errorf("read audience: %w", s.db.Known(err))
	}
	return list, next, more, nil
}

// CountEndpoints implements endpoint.Store. It ends early when ctx does.
func (s *Store) CountEndpoints(ctx context.Context, app string, sel *audience.Selection) (map[push.Channel]int64, error) {
	n, err := countEndpoints(ctx, s.db.Pool(), app, sel)
	if err != nil {
		return nil, fmt.Errorf("count audience: %w", s.db.Known(err))
	}
	return n, nil
}

func countEndpoints(ctx context.Context, q pgdb.Querier, app string, sel *audience.Selection) (map[push.Channel]int64, error) {
	all, err := endpointCounts(ctx, q, app, true)
	if err != nil {
		return nil, err
	}
	if len(sel.Channels) > 0 {
		asked := make(map[push.Channel]int64, len(sel.Channels))
		for _, ch := range sel.Channels {
			if n, ok := all[ch]; ok {
				asked[ch] = n
			}
		}
		if len(asked) == len(all) { // there are no others to tell them from
			all, sel = asked, &audience.Selection{Recipients: sel.Recipients, TagsAny: sel.TagsAny, TagsAll: sel.TagsAll, Where: sel.Where}
		}
		if len(asked) == 0 {
			return asked, nil
		}
	}
	if len(segment.Conditions(sel)) == 0 && len(sel.Recipients) == 0 && len(sel.Channels) == 0 {
		return all, nil
	}
	p, err := newPlan(ctx, q, app, sel, false)
	if err != nil {
		return nil, err
	}
	return p.count(ctx, q, all)
}

// count counts by channel. Where the app has one channel only the index is read.
func (p *plan) count(ctx context.Context, q pgdb.Querier, channels map[push.Channel]int64) (map[push.Channel]int64, error) {
	d := &p.driver
	rest := p.rest(d.number)
	from, by := d.from, "''"
	for ch := range channels {
		by = "'" + string(ch) + "'" // one of audience.Channels
	}
	if len(channels) > 1 || strings.Contains(rest.SQL, "e.") {
		by = "e.channel"
		if d.number != "e.number" {
			from += " JOIN endpoint e ON e.number = " + d.number
		}
	}
	n := make(map[push.Channel]int64)
	err := eachWhere(ctx, q, d.where.And(rest), "SELECT "+by+", count(*) FROM "+from+" WHERE ", " GROUP BY 1", nil, func(rows pgx.Rows) error {
		var channel push.Channel
		var count int64
		err := rows.Scan(&channel, &count)
		n[channel] = count
		return err
	})
	return n, err
}

// endpointCounts reads how many endpoints an app has by channel, active or disabled.
func endpointCounts(ctx context.Context, q pgdb.Querier, app string, active bool) (map[push.Channel]int64, error) {
	n := make(map[push.Channel]int64)
	err := pgdb.Each(ctx, q, "SELECT channel, n FROM endpoint_count WHERE app = $1 AND active = $2 AND n <> 0", []any{app, active}, func(rows pgx.Rows) error {
		var channel push.Channel
		var count int64
		err := rows.Scan(&channel, &count)
		n[channel] = count
		return err
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
