// Package endpoint keeps the push addresses of an app's recipients and anonymous subscribers: it registers, changes,
// finds and counts them, and checks the callers' rights.
package endpoint

import (
	"context"
	"encoding/json"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/sending/push"
)

// ListLooks bounds how many endpoints, or entries of their index, are read for one page of a list: a multiple of the number read at once.
const ListLooks = 1000

// Part is how many endpoints of an audience are among those that were read.
type Part struct {
	Count  int64
	Next   int64 // where to go on counting; 0: these are all
	Looked int64 // how many were read, if there are more
}

// Store keeps endpoints. Every implementation must pass storetest. Campaigns enumerate the same endpoints through
// theirs. Errors are mailbox.ErrNoSpace and mailbox.ErrClosed where they apply.
type Store interface {
	// Register makes endpoints or renews those whose address exists already, and returns once they are on disk, one result
	// each, in order. It works in slices: after an error those with a result are on disk.
	Register(ctx context.Context, app string, regs []audience.Registration) ([]audience.Registered, error)
	// Endpoint and EndpointAt, which takes an address in its normal form, fail with audience.ErrNotFound.
	Endpoint(ctx context.Context, app string, id audience.ID) (audience.Endpoint, error)
	EndpointAt(ctx context.Context, app string, ch push.Channel, address json.RawMessage) (audience.Endpoint, error)
	// EndpointsOf lists a recipient's endpoints, oldest first.
	EndpointsOf(ctx context.Context, app, recipient string) ([]audience.Endpoint, error)
	// UpdateEndpoint changes one in a transaction, unless change returns an error; change may run more than once. Callers
	// that are not trusted may use up at most half of the app's names of tags and attributes. audience.ErrTaken: the new
	// address belongs to another endpoint.
	UpdateEndpoint(ctx context.Context, app string, id audience.ID, trusted bool, change func(*audience.Endpoint) error) (audience.Endpoint, error)
	DeleteEndpoint(ctx context.Context, app string, id audience.ID) error
	// EraseRecipient deletes a recipient's endpoints and all data stored with them, and returns how many endpoints and
	// preferences there were.
	EraseRecipient(ctx context.Context, app, recipient string) (int, error)
	// DisableEndpoint marks an endpoint that gets no more messages. An endpoint marked as gone stays so.
	DisableEndpoint(ctx context.Context, number int64, reason string) error
	// ListEndpoints returns the next endpoints of a status, empty: of any, that are in a selection, in the order of
	// numbers after one. A page may be short although more follow, since no more than ListLooks are looked at: more says so, and next is
	// where to go on.
	ListEndpoints(ctx context.Context, app string, status audience.Status, sel *audience.Selection, after int64, limit int) (list []audience.Endpoint, next int64, more bool, err error)
	// CountEndpoints counts the active ones of an audience by channel, EndpointCounts all, from counters.
	CountEndpoints(ctx context.Context, app string, sel *audience.Selection) (map[push.Channel]int64, error)
	// CountPart counts some of the active ones of an audience, after a number, within milliseconds.
	CountPart(ctx context.Context, app string, sel *audience.Selection, after int64) (Part, error)
	EndpointCounts(ctx context.Context, app string) (active, disabled map[push.Channel]int64, err error)
	// Names lists the first tags and names of attributes that an app's endpoints have or had, by name: limit of each.
	Names(ctx context.Context, app string, limit int) (tags, attributes []string, err error)
}
