package campaigndb

import (
	"context"
	"encoding/json"
	"fmt"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/sending/push"
)

// EndpointAt returns the endpoint with an address, which must be in its normal form, or audience.ErrNotFound.
func (s *Store) EndpointAt(ctx context.Context, app string, ch push.Channel, address json.RawMessage) (e audience.Endpoint, err error) {
	key, found := audience.AddressKey(&audience.Endpoint{Channel: ch, Address: address}), false
	err = s.db.ReadFor(ctx, app, func(c *sqlite.Conn) error {
		e, found, err = endpointWhere(c, "e.app = ? AND e.address_key = ?", app, key[:])
		if former, ok := audience.FormerKey(&audience.Endpoint{Channel: ch, Address: address}); ok && err == nil && !found {
			e, found, err = endpointWhere(c, "e.app = ? AND e.address_key = ?", app, former[:])
		}
		return err
	})
	if err != nil {
		return e, fmt.Errorf("read endpoint by its address: %w", known(err))
	}
	if !found {
		return e, audience.ErrNotFound
	}
	return e, nil
}
