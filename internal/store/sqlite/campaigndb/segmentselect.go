package campaigndb

import (
	"context"
	"fmt"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/audience"
	"godwit.dev/godwit/internal/push"
	"godwit.dev/godwit/internal/store/segment"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

// minWindow is how many entries of an index one page looks at, at least: a condition that few meet ends with short
// pages rather than with long transactions.
const minWindow = 5000

// selectEndpoints reads the next active endpoints of a selection after a number, in the order of numbers, on whatever
// transaction the connection has. A page may be short or empty although more follow: more says so, and next is where
// to go on.
func selectEndpoints(c *sqlite.Conn, app string, sel *audience.Selection, after int64, limit int) (list []audience.Endpoint, next int64, more bool, err error) {
	p, err := newPlan(c, app, sel, true)
	if err != nil {
		return nil, after, false, err
	}
	upto, more, err := p.window(c, after, max(minWindow, 10*limit))
	if err != nil {
		return nil, after, false, err
	}
	query, args := p.page(after, upto, limit)
	err = sqlitedb.EachOnce(c, query, args, func(row *sqlite.Stmt) error {
		e, err := readEndpoint(row)
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

// page is the query for endpoints with numbers after one and up to another.
func (p *plan) page(after, upto int64, limit int) (query string, args []any) {
	where := p.driver.where.And(segment.That(p.driver.number+" > ? AND "+p.driver.number+" <= ?", after, upto), p.rest)
	query = "SELECT " + endpointColumns + " FROM " + p.driver.join() + " WHERE " + where.SQL + " ORDER BY " + p.driver.number + " LIMIT ?"
	return query, append(where.Args, limit)
}

// window returns the number up to which so many entries of the driver reach, and whether there are more.
func (p *plan) window(c *sqlite.Conn, after int64, entries int) (upto int64, more bool, err error) {
	where := p.driver.where.And(segment.That(p.driver.number+" > ?", after))
	query := "SELECT " + p.driver.number + " FROM " + p.driver.from + " WHERE " + where.SQL + " ORDER BY " + p.driver.number + " LIMIT 1 OFFSET ?"
	err = sqlitedb.EachOnce(c, query, append(where.Args, entries-1), func(row *sqlite.Stmt) error {
		upto, more = row.ColumnInt64(0), true
		return nil
	})
	if err == nil && !more {
		upto = 1<<63 - 1
	}
	return upto, more, err
}

// SelectEndpoints reads the next active endpoints of an audience: see selectEndpoints.
func (s *Store) SelectEndpoints(ctx context.Context, app string, sel *audience.Selection, after int64, limit int) (list []audience.Endpoint, next int64, more bool, err error) {
	err = s.db.ReadFor(ctx, app, func(c *sqlite.Conn) (err error) {
		list, next, more, err = selectEndpoints(c, app, sel, after, limit)
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
		n, err = countEndpoints(c, app, sel)
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

func countEndpoints(c *sqlite.Conn, app string, sel *audience.Selection) (map[push.Channel]int64, error) {
	all, err := endpointCounts(c, app, true)
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
	p, err := newPlan(c, app, sel, false)
	if err != nil {
		return nil, err
	}
	return p.count(c, all)
}

// count counts by channel. Where the app has one channel only the index is read.
func (p *plan) count(c *sqlite.Conn, channels map[push.Channel]int64) (map[push.Channel]int64, error) {
	where := p.driver.where.And(p.rest)
	from, by := p.driver.from, "''"
	for ch := range channels {
		by = "'" + string(ch) + "'" // one of audience.Channels
	}
	if len(channels) > 1 || p.usesColumns() {
		from, by = p.driver.join(), "e.channel"
	}
	n := make(map[push.Channel]int64)
	err := sqlitedb.EachOnce(c, "SELECT "+by+", count(*) FROM "+from+" WHERE "+where.SQL+" GROUP BY 1", where.Args, func(row *sqlite.Stmt) error {
		n[push.Channel(row.ColumnText(0))] = row.ColumnInt64(1)
		return nil
	})
	return n, err
}

// endpointCounts reads how many endpoints an app has by channel, active or disabled.
func endpointCounts(c *sqlite.Conn, app string, active bool) (map[push.Channel]int64, error) {
	n := make(map[push.Channel]int64)
	err := sqlitedb.Each(c, "SELECT channel, n FROM endpoint_count WHERE app = ? AND active = ? AND n <> 0", []any{app, active}, func(row *sqlite.Stmt) error {
		n[push.Channel(row.ColumnText(0))] = row.ColumnInt64(1)
		return nil
	})
	return n, err
}

// EndpointCounts returns how many endpoints an app has by channel: those that are active and those that are not.
func (s *Store) EndpointCounts(ctx context.Context, app string) (active, disabled map[push.Channel]int64, err error) {
	err = s.db.ReadFor(ctx, app, func(c *sqlite.Conn) (err error) {
		if active, err = endpointCounts(c, app, true); err == nil {
			disabled, err = endpointCounts(c, app, false)
		}
		return err
	})
	if err != nil {
		return nil, nil, fmt.Errorf("count endpoints: %w", known(err))
	}
	return active, disabled, nil
}

// Names lists the tags and the names of attributes that an app's endpoints have or had, in their order.
func (s *Store) Names(ctx context.Context, app string) (tags, attributes []string, err error) {
	err = s.db.ReadFor(ctx, app, func(c *sqlite.Conn) (err error) {
		if tags, err = names(c, "SELECT name FROM tag_name WHERE app = ? ORDER BY name", app); err == nil {
			attributes, err = names(c, "SELECT name FROM attribute_name WHERE app = ? ORDER BY name", app)
		}
		return err
	})
	if err != nil {
		return nil, nil, fmt.Errorf("list names of tags and attributes: %w", known(err))
	}
	return tags, attributes, nil
}

func names(c *sqlite.Conn, query, app string) (list []string, err error) {
	list = []string{}
	err = sqlitedb.Each(c, query, []any{app}, func(row *sqlite.Stmt) error {
		list = append(list, row.ColumnText(0))
		return nil
	})
	return list, err
}
