package campaigndb

import (
	"context"
	"encoding/json"
	"fmt"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/store/endpointrow"
	"godwit.dev/godwit/internal/store/millis"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

// readEndpoint reads endpointrow.Columns.
func readEndpoint(row *sqlite.Stmt) (e audience.Endpoint, err error) {
	e = audience.Endpoint{
		Number: row.ColumnInt64(0), App: row.ColumnText(1), Channel: push.Channel(row.ColumnText(3)), Recipient: row.ColumnText(4),
		Address: json.RawMessage(row.ColumnText(5)), Locale: row.ColumnText(8), Timezone: row.ColumnText(9),
		Status: endpointrow.StatusOf(row.ColumnInt64(10) == 1), DisabledReason: row.ColumnText(11), CreatedAt: millis.Time(row.ColumnInt64(12)),
		UpdatedAt: millis.Time(row.ColumnInt64(13)), LastSeenAt: millis.Time(row.ColumnInt64(14)),
	}
	row.ColumnBytes(2, e.ID[:])
	row.ColumnBytes(15, e.Token[:])
	return e, endpointrow.ReadJSON(&e, row.ColumnText(6), row.ColumnText(7))
}

// endpointWhere reads the one endpoint that meets a condition.
func endpointWhere(c *sqlite.Conn, where string, args ...any) (e audience.Endpoint, found bool, err error) {
	err = sqlitedb.Each(c, "SELECT "+endpointrow.Columns+" FROM endpoint e WHERE "+where, args, func(row *sqlite.Stmt) (err error) {
		e, err = readEndpoint(row)
		found = true
		return err
	})
	return e, found, err
}

// endpointByNumber reads the endpoint of a delivery; found is false if it was deleted.
func endpointByNumber(c *sqlite.Conn, number int64) (e audience.Endpoint, found bool, err error) {
	return endpointWhere(c, "e.number = ?", number)
}

func endpointByID(c *sqlite.Conn, app string, id audience.ID) (e audience.Endpoint, found bool, err error) {
	return endpointWhere(c, "e.app = ? AND e.id = ?", app, id[:])
}

// Endpoint returns one endpoint or audience.ErrNotFound.
func (s *Store) Endpoint(ctx context.Context, app string, id audience.ID) (e audience.Endpoint, err error) {
	found := false
	err = s.db.ReadFor(ctx, app, func(c *sqlite.Conn) error {
		e, found, err = endpointByID(c, app, id)
		return err
	})
	if err != nil {
		return e, fmt.Errorf("read endpoint %s: %w", id, known(err))
	}
	if !found {
		return e, audience.ErrNotFound
	}
	return e, nil
}

// EndpointsOf returns a recipient's endpoints, oldest first.
func (s *Store) EndpointsOf(ctx context.Context, app, recipient string) (list []audience.Endpoint, err error) {
	err = s.db.ReadFor(ctx, app, func(c *sqlite.Conn) error {
		list = nil
		return sqlitedb.Each(c, "SELECT "+endpointrow.Columns+" FROM endpoint e WHERE e.app = ? AND e.recipient = ? AND e.recipient <> '' ORDER BY e.number LIMIT ?",
			[]any{app, recipient, endpointrow.MaxOfRecipient}, func(row *sqlite.Stmt) error {
				e, err := readEndpoint(row)
				list = append(list, e)
				return err
			})
	})
	if err != nil {
		return nil, fmt.Errorf("read endpoints of %s: %w", recipient, known(err))
	}
	return list, nil
}
