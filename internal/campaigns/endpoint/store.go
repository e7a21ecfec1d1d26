// Package endpoint manages the push addresses of an app's recipients and anonymous subscribers: it registers, changes, finds and counts
// them, and checks the callers' rights.
package endpoint

import (
	"context"
	"encoding/json"
	"time"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/sending/push"
)

// ListLooks limits the number of endpoints, or of entries of their index, that are read for one page of a list. It is a multiple of the
// number read at once.
const ListLooks = 1000

// Part is the result of counting an audience among some endpoints.
type Part struct {
	Count  int64
	Next   int64 // number to continue counting from; 0: all are counted
	Looked int64 // number of endpoints read, if there are more
}

// Day is the number of endpoints that became active on a day in UTC, and of those that were disabled or deleted.
type Day struct {
	Day          time.Time
	Gained, Lost int64
}

// Store stores endpoints. Every implementation must pass storetest. Campaigns read the same endpoints through their own store. Errors are
// mailbox.ErrNoSpace and mailbox.ErrClosed where they apply.
type Store interface {
	// Register creates endpoints, or renews those whose address exists already. It returns when they are on disk, with one result each, in
	// order. It works in slices: after an error, the endpoints with a result are on disk.
	Register(ctx context.Context, app string, regs []audience.Registration) ([]audience.Registered, error)
	// Endpoint and EndpointAt fail with audience.ErrNotFound. EndpointAt's address must be in normal form.
	Endpoint(ctx context.Context, app string, id audience.ID) (audience.Endpoint, error)
	EndpointAt(ctx context.Context, app string, ch push.Channel, address json.RawMessage) (audience.Endpoint, error)
	// EndpointsOf lists a recipient's endpoints, oldest first.
	EndpointsOf(ctx context.Context, app, recipient string) ([]audience.Endpoint, error)
	// UpdateEndpoint changes an endpoint in a transaction, unless change returns an error; change may run more than once. Callers that are
	// not trusted may use at most half of the app's limits for tags and attribute names. It fails with audience.ErrTaken if the new address
	// belongs to another endpoint.
	UpdateEndpoint(ctx context.Context, app string, id audience.ID, trusted bool, change func(*audience.Endpoint) error) (audience.Endpoint, error)
	DeleteEndpoint(ctx context.Context, app string, id audience.ID) error
	// EraseRecipient deletes a recipient's endpoints and all data stored with them, and returns the number of endpoints and preferences.
	EraseRecipient(ctx context.Context, app, recipient string) (int, error)
	// DisableEndpoint marks an endpoint that must get no more messages. If it was marked as gone, the mark does not change.
	DisableEndpoint(ctx context.Context, number int64, reason string) error
	// ListEndpoints returns endpoints with a status (empty: any) that are in a selection, in the order of numbers, after the number after.
	// A page may be short although more follow, because it reads at most ListLooks endpoints: then more is true, and next is the number to
	// continue from.
	ListEndpoints(ctx context.Context, app string, status audience.Status, sel *audience.Selection, after int64, limit int) (list []audience.Endpoint, next int64, more bool, err error)
	// CountEndpoints counts an audience's active endpoints by channel. EndpointCounts returns the counts of all endpoints, from counters.
	CountEndpoints(ctx context.Context, app string, sel *audience.Selection) (map[push.Channel]int64, error)
	// CountPart counts an audience's active endpoints among some after a number, within milliseconds.
	CountPart(ctx context.Context, app string, sel *audience.Selection, after int64) (Part, error)
	EndpointCounts(ctx context.Context, app string) (active, disabled map[push.Channel]int64, err error)
	// EndpointDays counts the endpoints of a channel (empty: of all) that became active and that stopped being active, by the day. It leaves out
	// days on which none did.
	EndpointDays(ctx context.Context, app string, ch push.Channel, from, to time.Time) ([]Day, error)
	// Names lists the first tags and attribute names that an app's endpoints have or had, ordered by name, up to limit of each.
	Names(ctx context.Context, app string, limit int) (tags, attributes []string, err error)
}
