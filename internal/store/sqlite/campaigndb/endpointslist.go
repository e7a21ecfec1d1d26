package campaigndb

import (
	"context"
	"fmt"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/store/endpointrow"
	"godwit.dev/godwit/internal/store/segment"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

// ListEndpoints returns the next endpoints of a status (empty: any) that are in a selection, in the order of numbers above after. A page
// may be short although more endpoints follow: then more is true, and next is where to continue.
func (s *Store) ListEndpoints(ctx context.Context, app string, status audience.Status, sel *audience.Selection, after int64, limit int) (list []audience.Endpoint, next int64, more bool, err error) {
	if status == audience.Active {
		return s.selectEndpoints(ctx, app, sel, after, limit, segment.List)
	}
	list, next, more, err = segment.Look(sel, after, limit, func(after int64, limit int) (window []audience.Endpoint, err error) {
		err = s.db.ReadFor(ctx, app, func(c *sqlite.Conn) error {
			if named, ok := dialect.Named(app, status, sel, after, limit); ok {
				window, err = selecting{c}.Endpoints(named)
			} else {
				window, err = endpointsAfter(c, app, status, after, limit)
			}
			return err
		})
		return window, err
	})
	if err != nil {
		return nil, after, false, fmt.Errorf("list endpoints: %w", known(err))
	}
	return list, next, more, nil
}

// numbersAfter selects the numbers of the next endpoints after a number, either active or not.
const numbersAfter = "SELECT number FROM (SELECT number FROM endpoint WHERE app = ? AND active = ? AND number > ? ORDER BY number LIMIT ?) AS n"

// endpointsAfter reads the next endpoints of a status after a number, in the order of numbers.
func endpointsAfter(c *sqlite.Conn, app string, status audience.Status, after int64, limit int) (list []audience.Endpoint, err error) {
	query := afterQuery(app, status, after, limit)
	err = sqlitedb.Each(c, query.SQL, query.Args, func(row *sqlite.Stmt) error {
		e, err := readEndpoint(row)
		list = append(list, e)
		return err
	})
	return list, err
}

func afterQuery(app string, status audience.Status, after int64, limit int) segment.Clause {
	numbers, args := numbersAfter, []any{app, 0, after, limit}
	if status == "" {
		numbers, args = numbersAfter+" UNION ALL "+numbersAfter, append(args, app, 1, after, limit)
	}
	return segment.That("SELECT "+endpointrow.Columns+" FROM endpoint e WHERE e.number IN ("+numbers+") ORDER BY e.number LIMIT ?", append(args, limit)...)
}
