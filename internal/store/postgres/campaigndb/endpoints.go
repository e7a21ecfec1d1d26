package campaigndb

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/endpoint"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/store/endpointrow"
	"godwit.dev/godwit/internal/store/millis"
	"godwit.dev/godwit/internal/store/postgres/pgdb"
	"godwit.dev/godwit/internal/store/segment"
)

// scanEndpoint reads endpointrow.Columns.
func scanEndpoint(rows pgx.Rows) (e audience.Endpoint, err error) {
	var id, address, token []byte
	var tags, attributes string
	var active bool
	var createdAt, updatedAt, seenAt int64
	err = rows.Scan(&e.Number, &e.App, &id, &e.Channel, &e.Recipient, &address, &tags, &attributes, &e.Locale, &e.Timezone,
		&active, &e.DisabledReason, &createdAt, &updatedAt, &seenAt, &token)
	if err != nil {
		return e, err
	}
	copy(e.ID[:], id)
	copy(e.Token[:], token)
	e.Address, e.Status = json.RawMessage(address), endpointrow.StatusOf(active)
	e.CreatedAt, e.UpdatedAt, e.LastSeenAt = millis.Time(createdAt), millis.Time(updatedAt), millis.Time(seenAt)
	return e, endpointrow.ReadJSON(&e, tags, attributes)
}

// endpointsWhere reads the endpoints that meet a condition.
func endpointsWhere(ctx context.Context, q pgdb.Querier, where string, args ...any) (list []audience.Endpoint, err error) {
	err = pgdb.Each(ctx, q, "SELECT "+endpointrow.Columns+" FROM endpoint e WHERE "+where, args, func(rows pgx.Rows) error {
		e, err := scanEndpoint(rows)
		list = append(list, e)
		return err
	})
	return list, err
}

// endpoint reads the one endpoint that meets a condition, or returns audience.ErrNotFound.
func (s *Store) endpoint(ctx context.Context, op, where string, args ...any) (e audience.Endpoint, err error) {
	list, err := endpointsWhere(ctx, s.db.Pool(), where, args...)
	switch {
	case err != nil:
		return e, fmt.Errorf("%s: %w", op, s.db.Known(err))
	case len(list) == 0:
		return e, audience.ErrNotFound
	}
	return list[0], nil
}

// Endpoint implements endpoint.Store.
func (s *Store) Endpoint(ctx context.Context, app string, id audience.ID) (audience.Endpoint, error) {
	return s.endpoint(ctx, "read endpoint "+id.String(), "e.app = $1 AND e.id = $2", app, id[:])
}

// EndpointAt implements endpoint.Store.
func (s *Store) EndpointAt(ctx context.Context, app string, ch push.Channel, address json.RawMessage) (audience.Endpoint, error) {
	key := audience.AddressKey(&audience.Endpoint{Channel: ch, Address: address})
	keys := [][]byte{key[:]}
	if former, ok := audience.FormerKey(&audience.Endpoint{Channel: ch, Address: address}); ok {
		keys = append(keys, former[:])
	}
	return s.endpoint(ctx, "read endpoint by its address", "e.app = $1 AND e.address_key = ANY($2) ORDER BY e.address_key = $3 DESC", app, keys, key[:])
}

const ofRecipient = "e.app = $1 AND e.recipient = $2 AND e.recipient <> '' ORDER BY e.number LIMIT $3"

// EndpointsOf implements endpoint.Store.
func (s *Store) EndpointsOf(ctx context.Context, app, recipient string) ([]audience.Endpoint, error) {
	list, err := endpointsWhere(ctx, s.db.Pool(), ofRecipient, app, recipient, endpointrow.MaxOfRecipient)
	if err != nil {
		return nil, fmt.Errorf("read endpoints of %s: %w", recipient, s.db.Known(err))
	}
	return list, nil
}

// ListEndpoints implements endpoint.Store.
func (s *Store) ListEndpoints(ctx context.Context, app string, status audience.Status, sel *audience.Selection, after int64, limit int) (list []audience.Endpoint, next int64, more bool, err error) {
	if status == audience.Active {
		list, next, more, err = segment.List(selecting{ctx, s.db.Pool()}, dialect, app, sel, after, limit)
		if err != nil {
			return nil, after, false, fmt.Errorf("list endpoints: %w", s.db.Known(err))
		}
		return list, next, more, nil
	}
	list, next, more, err = segment.Look(sel, after, limit, func(after int64, limit int) ([]audience.Endpoint, error) {
		if named, ok := dialect.Named(app, status, sel, after, limit); ok {
			return selecting{ctx, s.db.Pool()}.Endpoints(named)
		}
		return endpointsAfter(ctx, s.db.Pool(), app, status, after, limit)
	})
	if err != nil {
		return nil, after, false, fmt.Errorf("list endpoints: %w", s.db.Known(err))
	}
	return list, next, more, nil
}

// numbersAfter lists the first numbers of endpoints, active or disabled, above a given one.
const numbersAfter = "(SELECT number FROM endpoint WHERE app = $1 AND active = %t AND number > $2 ORDER BY number LIMIT $3)"

// endpointsAfter reads endpoints in the order of numbers.
func endpointsAfter(ctx context.Context, q pgdb.Querier, app string, status audience.Status, after int64, limit int) ([]audience.Endpoint, error) {
	return endpointsWhere(ctx, q, afterCondition(status), app, after, limit)
}

func afterCondition(status audience.Status) string {
	numbers := fmt.Sprintf(numbersAfter, false)
	if status == "" {
		numbers += " UNION ALL " + fmt.Sprintf(numbersAfter, true)
	}
	return "e.number IN (" + numbers + ") ORDER BY e.number LIMIT $3"
}

// EndpointDays implements endpoint.Store.
func (s *Store) EndpointDays(ctx context.Context, app string, ch push.Channel, from, to time.Time) (list []endpoint.Day, err error) {
	const query = `SELECT day, sum(gained)::bigint, sum(lost)::bigint FROM endpoint_day
		WHERE app = $1 AND day >= $2 AND day <= $3 AND ($4 = '' OR channel = $4) GROUP BY day ORDER BY day`
	err = s.db.Each(ctx, "count endpoints by the day", query, []any{app, endpointrow.DayOf(from), endpointrow.DayOf(to), string(ch)}, func(rows pgx.Rows) error {
		var day, gained, lost int64
		err := rows.Scan(&day, &gained, &lost)
		list = append(list, endpointrow.DayRow(day, gained, lost))
		return err
	})
	return list, err
}

// Names implements endpoint.Store.
func (s *Store) Names(ctx context.Context, app string, limit int) (tags, attributes []string, err error) {
	tags, attributes = []string{}, []string{}
	for query, list := range map[string]*[]string{
		"SELECT name FROM tag_name WHERE app = $1 ORDER BY name LIMIT $2":       &tags,
		"SELECT name FROM attribute_name WHERE app = $1 ORDER BY name LIMIT $2": &attributes,
	} {
		err := s.db.Each(ctx, "list names of tags and attributes", query, []any{app, limit}, func(rows pgx.Rows) error {
			var name string
			err := rows.Scan(&name)
			*list = append(*list, name)
			return err
		})
		if err != nil {
			return nil, nil, err
		}
	}
	return tags, attributes, nil
}
