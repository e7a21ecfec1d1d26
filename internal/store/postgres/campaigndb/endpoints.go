package campaigndb

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/audience"
	"godwit.dev/godwit/internal/push"
	"godwit.dev/godwit/internal/store/postgres/pgdb"
)

// endpointColumns are what scanEndpoint reads, of a table called e.
const endpointColumns = `e.number, e.app, e.id, e.channel, e.recipient, e.address, e.tags, e.attributes, e.locale, e.timezone,
	e.active, e.disabled_reason, e.created_at, e.updated_at, e.last_seen_at, e.token`

func scanEndpoint(rows pgx.Rows) (e audience.Endpoint, err error) {
	var id, address, tags, attributes, token []byte
	var active bool
	var createdAt, updatedAt, seenAt int64
	err = rows.Scan(&e.Number, &e.App, &id, &e.Channel, &e.Recipient, &address, &tags, &attributes, &e.Locale, &e.Timezone,
		&active, &e.DisabledReason, &createdAt, &updatedAt, &seenAt, &token)
	if err != nil {
		return e, err
	}
	copy(e.ID[:], id)
	copy(e.Token[:], token)
	e.Address, e.Status = json.RawMessage(address), audience.Disabled
	if active {
		e.Status = audience.Active
	}
	e.CreatedAt, e.UpdatedAt, e.LastSeenAt = fromMillis(createdAt), fromMillis(updatedAt), fromMillis(seenAt)
	if string(tags) != "[]" {
		err = json.Unmarshal(tags, &e.Tags)
	}
	if string(attributes) != "{}" && err == nil {
		err = json.Unmarshal(attributes, &e.Attributes)
	}
	if err != nil {
		return e, fmt.Errorf("read endpoint %s: its row is damaged: %w", e.ID, err)
	}
	return e, nil
}

// endpointsWhere reads the endpoints for which a condition holds.
func endpointsWhere(ctx context.Context, q pgdb.Querier, where string, args ...any) (list []audience.Endpoint, err error) {
	err = pgdb.Each(ctx, q, "SELECT "+endpointColumns+" FROM endpoint e WHERE "+where, args, func(rows pgx.Rows) error {
		e, err := scanEndpoint(rows)
		list = append(list, e)
		return err
	})
	return list, err
}

// endpoint reads the one endpoint for which a condition holds, or audience.ErrNotFound.
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
	return s.endpoint(ctx, "read endpoint by its address", "e.app = $1 AND e.address_key = $2", app, key[:])
}

// maxOfRecipient bounds how many endpoints of one recipient are shown: people have a few devices.
const maxOfRecipient = 1000

const ofRecipient = "e.app = $1 AND e.recipient = $2 AND e.recipient <> '' ORDER BY e.number LIMIT $3"

// EndpointsOf implements endpoint.Store.
func (s *Store) EndpointsOf(ctx context.Context, app, recipient string) ([]audience.Endpoint, error) {
	list, err := endpointsWhere(ctx, s.db.Pool(), ofRecipient, app, recipient, maxOfRecipient)
	if err != nil {
		return nil, fmt.Errorf("read endpoints of %s: %w", recipient, s.db.Known(err))
	}
	return list, nil
}

// Endpoints of any status are looked through one by one, since only active ones can be found by tags and attributes.
const (
	listWindow = 500    // read at once
	listMost   = 20_000 // looked through for one page, which may then be short
)

// ListEndpoints implements endpoint.Store.
func (s *Store) ListEndpoints(ctx context.Context, app string, status audience.Status, sel *audience.Selection, after int64, limit int) (list []audience.Endpoint, next int64, more bool, err error) {
	if status == audience.Active {
		return s.SelectEndpoints(ctx, app, sel, after, limit)
	}
	next, more = after, true
	for looked := 0; more && len(list) < limit && looked < listMost; looked += listWindow {
		window, err := endpointsAfter(ctx, s.db.Pool(), app, status, next, listWindow)
		if err != nil {
			return nil, after, false, fmt.Errorf("list endpoints: %w", s.db.Known(err))
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
const numbersAfter = "(SELECT number FROM endpoint WHERE app = $1 AND active = %t AND number > $2 ORDER BY number LIMIT $3)"

// endpointsAfter reads endpoints in the order of numbers.
func endpointsAfter(ctx context.Context, q pgdb.Querier, app string, status audience.Status, after int64, limit int) ([]audience.Endpoint, error) {
	numbers := fmt.Sprintf(numbersAfter, false)
	if status == "" {
		numbers += " UNION ALL " + fmt.Sprintf(numbersAfter, true)
	}
	return endpointsWhere(ctx, q, "e.number IN ("+numbers+") ORDER BY e.number LIMIT $3", app, after, limit)
}

// Names implements endpoint.Store.
func (s *Store) Names(ctx context.Context, app string) (tags, attributes []string, err error) {
	tags, attributes = []string{}, []string{}
	for query, list := range map[string]*[]string{
		"SELECT name FROM tag_name WHERE app = $1 ORDER BY name":       &tags,
		"SELECT name FROM attribute_name WHERE app = $1 ORDER BY name": &attributes,
	} {
		err := s.db.Each(ctx, "list names of tags and attributes", query, []any{app}, func(rows pgx.Rows) error {
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
