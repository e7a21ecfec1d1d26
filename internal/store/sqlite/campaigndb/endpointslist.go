package campaigndb

import (
	"context"
	"fmt"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/audience"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

// Endpoints of any status are looked through one by one, since only active ones can be found by tags and attributes.
const (
	listWindow = 500    // read at once
	listMost   = 20_000 // looked through for one page, which may then be short
)

// ListEndpoints returns the next endpoints of a status, empty: of any, that are in a selection, in the order of
// numbers after one. A page may be short although more follow: more says so, and next is where to go on.
func (s *Store) ListEndpoints(ctx context.Context, app string, status audience.Status, sel *audience.Selection, after int64, limit int) (list []audience.Endpoint, next int64, more bool, err error) {
	if status == audience.Active {
		return s.SelectEndpoints(ctx, app, sel, after, limit)
	}
	next, more = after, true
	for looked := 0; more && len(list) < limit && looked < listMost; looked += listWindow {
		var window []audience.Endpoint
		err := s.db.ReadFor(ctx, app, func(c *sqlite.Conn) (err error) {
			window, err = endpointsAfter(c, app, status, next, listWindow)
			return err
		})
		if err != nil {
			return nil, after, false, fmt.Errorf("list endpoints: %w", known(err))
		}
		more = len(window) == listWindow
		for i := range window {
			if len(list) == limit {
				more = true
				break
			}
			next = window[i].Number
			if sel.Match(&window[i]) {
				list = append(list, window[i])
			}
		}
	}
	return list, next, more, nil
}

// numbersAfter lists the first numbers of endpoints, active or not, after one.
const numbersAfter = "SELECT number FROM (SELECT number FROM endpoint WHERE app = ? AND active = ? AND number > ? ORDER BY number LIMIT ?) AS n"

// endpointsAfter reads endpoints in the order of numbers.
func endpointsAfter(c *sqlite.Conn, app string, status audience.Status, after int64, limit int) (list []audience.Endpoint, err error) {
	numbers, args := numbersAfter, []any{app, 0, after, limit}
	if status == "" {
		numbers, args = numbersAfter+" UNION ALL "+numbersAfter, append(args, app, 1, after, limit)
	}
	err = sqlitedb.Each(c, "SELECT "+endpointColumns+" FROM endpoint e WHERE e.number IN ("+numbers+") ORDER BY e.number LIMIT ?", append(args, limit),
		func(row *sqlite.Stmt) error {
			e, err := readEndpoint(row)
			list = append(list, e)
			return err
		})
	return list, err
}
