package campaigndb

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/store/endpointrow"
	"godwit.dev/godwit/internal/store/millis"
	"godwit.dev/godwit/internal/store/postgres/pgdb"
)

// columns holds endpoints as arrays, one for each column that can change.
type columns struct {
	numbers                                           []int64
	ids, keys, tokens                                 [][]byte
	channels, recipients, addresses, tags, attributes []string
	locales, timezones, reasons                       []string
	actives                                           []bool
	createdAt, updatedAt, seenAt                      []int64
}

func (c *columns) add(w *writer, e *audience.Endpoint) error {
	tags, attributes, err := endpointrow.JSON(e)
	if err != nil {
		return err
	}
	var token []byte
	if e.Token != (audience.TokenHash{}) {
		token = slices.Clone(e.Token[:])
	}
	key := w.key(e)
	c.numbers, c.ids, c.keys, c.tokens = append(c.numbers, e.Number), append(c.ids, slices.Clone(e.ID[:])), append(c.keys, key[:]), append(c.tokens, token)
	c.channels, c.recipients, c.addresses = append(c.channels, string(e.Channel)), append(c.recipients, e.Recipient), append(c.addresses, string(e.Address))
	c.tags, c.attributes = append(c.tags, tags), append(c.attributes, attributes)
	c.locales, c.timezones, c.reasons = append(c.locales, e.Locale), append(c.timezones, e.Timezone), append(c.reasons, e.DisabledReason)
	c.actives = append(c.actives, e.Status == audience.Active)
	c.createdAt, c.updatedAt, c.seenAt = append(c.createdAt, millis.Of(e.CreatedAt)), append(c.updatedAt, millis.Of(e.UpdatedAt)), append(c.seenAt, millis.Of(e.LastSeenAt))
	return nil
}

// args returns the arrays in the order of unnested.
func (c *columns) args() []any {
	return []any{
		c.numbers, c.ids, c.channels, c.recipients, c.addresses, c.keys, c.tags, c.attributes, c.locales, c.timezones,
		c.actives, c.reasons, c.createdAt, c.updatedAt, c.seenAt, c.tokens,
	}
}

const (
	unnested = `unnest($1::bigint[], $2::bytea[], $3::text[], $4::text[], $5::text[], $6::bytea[], $7::text[], $8::text[], $9::text[], $10::text[],
		$11::boolean[], $12::text[], $13::bigint[], $14::bigint[], $15::bigint[], $16::bytea[]) WITH ORDINALITY
		AS v(number, id, channel, recipient, address, address_key, tags, attributes, locale, timezone,
		active, disabled_reason, created_at, updated_at, last_seen_at, token, nth)`
	insertEndpoints = `INSERT INTO endpoint(app, id, channel, recipient, address, address_key, tags, attributes, locale, timezone,
			active, disabled_reason, created_at, updated_at, last_seen_at, token)
		SELECT $17, id, channel, recipient, address, address_key, tags, attributes, locale, timezone,
			active, disabled_reason, created_at, updated_at, last_seen_at, token FROM ` + unnested + ` ORDER BY nth RETURNING number, address_key`
	updateEndpoints = `UPDATE endpoint e SET channel = v.channel, recipient = v.recipient, address = v.address, address_key = v.address_key, tags = v.tags,
			attributes = v.attributes, locale = v.locale, timezone = v.timezone, active = v.active, disabled_reason = v.disabled_reason,
			created_at = v.created_at, updated_at = v.updated_at, last_seen_at = v.last_seen_at, token = v.token
		FROM ` + unnested + " WHERE e.app = $17 AND e.number = v.number"
)

// store writes endpoints, and the rows that serve to find them.
func (w *writer) store(ctx context.Context, gone, changed, fresh []*record) error {
	if len(gone) > 0 {
		numbers := make([]int64, len(gone))
		for i, r := range gone {
			numbers[i] = r.e.Number
		}
		if _, err := w.tx.Exec(ctx, "DELETE FROM endpoint WHERE app = $1 AND number = ANY($2)", w.app, numbers); err != nil {
			return err
		}
	}
	if len(changed) > 0 {
		args, err := w.columnsOf(changed)
		if err != nil {
			return err
		}
		if _, err := w.tx.Exec(ctx, updateEndpoints, args...); err != nil {
			return err
		}
	}
	if len(fresh) > 0 {
		args, err := w.columnsOf(fresh)
		if err != nil {
			return err
		}
		err = pgdb.Each(ctx, w.tx, insertEndpoints, args, func(rows pgx.Rows) error {
			var number int64
			var key []byte
			if err := rows.Scan(&number, &key); err != nil {
				return err
			}
			w.byKey[addressKey(key)].e.Number = number
			return nil
		})
		if err != nil {
			return err
		}
	}
	return w.index(ctx, slices.Concat(gone, changed, fresh))
}

func (w *writer) columnsOf(records []*record) ([]any, error) {
	var c columns
	for _, r := range records {
		if err := c.add(w, &r.e); err != nil {
			return nil, err
		}
	}
	return append(c.args(), w.app), nil
}
