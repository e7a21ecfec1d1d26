package push

import (
	"context"
	"encoding/json"
	"time"
)

// ActivityUpdate is a version of an object for the Live Activities at one address: one device, or all that follow a broadcast channel.
type ActivityUpdate struct {
	Address   json.RawMessage
	State     json.RawMessage // nil: only the end is told
	Alert     *ActivityAlert  // nil: the change is shown silently
	Urgency   Urgency
	End       bool
	Stale     time.Time // when the state is outdated; zero: never
	Dismiss   time.Time // with End: when the activity leaves the lock screen; zero: as the system likes, within 4 hours
	Relevance *float64
}

// ActivityAlert is what an update shows and plays to be noticed.
type ActivityAlert struct {
	Title string `json:"title"`
	Body  string `json:"body"`
	Sound string `json:"sound,omitempty"`
}

// ActivityUpdater is implemented by senders that can change running Live Activities.
type ActivityUpdater interface {
	// UpdateActivity makes one attempt. Its errors mean the same as from Send. An update that comes twice does no harm.
	UpdateActivity(ctx context.Context, u *ActivityUpdate) error
}

// Broadcaster is implemented by senders whose provider passes an update on to everybody who follows a channel.
type Broadcaster interface {
	// CreateBroadcast makes a channel and returns its id. keep: the provider keeps the latest update for devices that are off.
	CreateBroadcast(ctx context.Context, keep bool) (id string, err error)
	// FindBroadcast returns whether a channel keeps the latest update. GoneError: there is no such channel.
	FindBroadcast(ctx context.Context, id string) (keep bool, err error)
	// DeleteBroadcast deletes a channel. GoneError: there is none.
	DeleteBroadcast(ctx context.Context, id string) error
}
