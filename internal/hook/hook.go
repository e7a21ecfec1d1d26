// Package hook tells an app's own programs of events: each hook follows the event log from where it stands, posts one
// event a request, in order, and keeps trying for days.
package hook

import (
	"context"
	"errors"
	"slices"
	"time"

	"godwit.dev/godwit/internal/event"
)

// ErrUnknown says that the app has no hook of that name. Wrapped, never bare.
var ErrUnknown = errors.New("no such hook")

// Hook is where events go.
type Hook struct {
	App       string
	Name      string
	URL       string       // may hold a secret
	Types     []event.Type // empty: all
	Secrets   []string     // sign messages, whsec_…; several while the receiver changes over
	Enabled   bool
	CreatedAt time.Time
	UpdatedAt time.Time
}

// wants reports whether a hook is told of events of a type.
func (h *Hook) wants(t event.Type) bool { return len(h.Types) == 0 || slices.Contains(h.Types, t) }

func (h *Hook) equal(o *Hook) bool {
	return h.URL == o.URL && h.Enabled == o.Enabled && slices.Equal(h.Types, o.Types) && slices.Equal(h.Secrets, o.Secrets)
}

// Progress is how far a hook has come.
type Progress struct {
	App           string    `json:"-"`
	Name          string    `json:"-"`
	Cursor        uint64    `json:"cursor"`                  // newest event that is done with
	Delivered     uint64    `json:"delivered"`               // events since the hook was made
	LastDelivered time.Time `json:"last_delivered,omitzero"` // when the receiver took one last
	Failing       time.Time `json:"failing,omitzero"`        // since when the next event fails; zero: it does not
	Attempts      int       `json:"attempts,omitempty"`      // made for the next event
	NextAt        time.Time `json:"next_at,omitzero"`        // of the next attempt
	LastError     string    `json:"last_error,omitempty"`    // of the last attempt that failed
	Paused        string    `json:"paused,omitempty"`        // why nothing is sent until a person says so; empty: it is sent
	PausedAt      time.Time `json:"paused_at,omitzero"`      //
}

// State is a hook's condition in one word.
type State string

// States.
const (
	Active   State = "active"
	Failing  State = "failing"  // the next event fails and is tried again
	Paused   State = "paused"   // it failed for too long, or the receiver wants no more
	Disabled State = "disabled" // switched off
)

// Info is what may be seen of a hook.
type Info struct {
	Hook
	Progress
	State  State
	Newest uint64 // event in the log: how far there is to go
}

// Change says what a hook is to be. Secrets and Enabled stay as they are where nil.
type Change struct {
	URL     string
	Types   []event.Type
	Secrets []string
	Enabled *bool
}

// Store keeps hooks. Several processes may write to the same one.
type Store interface {
	Hooks(ctx context.Context) ([]Hook, error)
	// UpdateHook reads a hook, or makes an empty one, lets change alter it and writes it, all in one transaction. It
	// fails with access.ErrUnknownApp where the app is missing. n is how many hooks the app has, this one not counted.
	UpdateHook(ctx context.Context, app, name string, change func(h *Hook, n int) error) error
	// DeleteHook reports whether there was one.
	DeleteHook(ctx context.Context, app, name string) (bool, error)
	// Watch calls changed after a change committed by anybody, within a second of it, until ctx ends.
	Watch(ctx context.Context, changed func()) error
}

// ProgressStore keeps progress, with the events. It is this server's alone.
type ProgressStore interface {
	HookProgress(ctx context.Context) ([]Progress, error)
	SaveHookProgress(ctx context.Context, save []Progress, forget [][2]string) error
}

// Poster posts signed messages.
type Poster interface {
	// Check says what is wrong with a URL and secrets: a *notification.FieldError.
	Check(url string, secrets []string) error
	NewSecret() string
	// Post makes one attempt; its errors are those of package push.
	Post(ctx context.Context, secrets []string, url, id string, body []byte) error
}
