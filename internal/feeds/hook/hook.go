// Package hook posts an app's events to the app's own programs: each hook follows the event log from its cursor, posts
// one event a request, in order for each recipient, and keeps trying for days.
package hook

import (
	"context"
	"errors"
	"slices"
	"time"

	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/feeds/event"
)

// ErrUnknown says that the app has no hook of that name. Functions return it wrapped, never bare.
var ErrUnknown = errors.New("no such hook")

// Hook is where events go.
type Hook struct {
	App       string
	Name      string
	URL       string       // may hold a secret
	Types     []event.Type // empty: all
	Secrets   []string     // keys that sign messages, whsec_…; several while the receiver changes its key
	Enabled   bool
	CreatedAt time.Time
	UpdatedAt time.Time
	From      uint64    // id of the event after which the hook starts, or starts again
	FromAt    time.Time // when From was set; zero: never
}

// wants reports whether the hook gets events of type t.
func (h *Hook) wants(t event.Type) bool { return len(h.Types) == 0 || slices.Contains(h.Types, t) }

// asked is the time of the last change that a person or program made to the hook.
func (h *Hook) asked() time.Time {
	if h.FromAt.After(h.UpdatedAt) {
		return h.FromAt
	}
	return h.UpdatedAt
}

// next returns the time of a change that is made now: later than all earlier changes, even if the clocks of other
// servers were ahead.
func (h *Hook) next(now time.Time) time.Time { return setting.After(h.asked(), now) }

// matches fails with *setting.ChangedError if the hook has another revision.
func (h *Hook) matches(must setting.Match) error {
	return must.Check("hook "+h.Name, setting.RevisionAt(h.UpdatedAt))
}

// same reports whether two copies of a hook have equal settings and times of change.
func (h *Hook) same(o *Hook) bool {
	return h.CreatedAt.Equal(o.CreatedAt) && h.asked().Equal(o.asked()) &&
		h.URL == o.URL && h.Enabled == o.Enabled && slices.Equal(h.Types, o.Types) && slices.Equal(h.Secrets, o.Secrets)
}

// Progress records how far a hook has delivered the events.
type Progress struct {
	App           string    `json:"-"`
	Name          string    `json:"-"`
	Cursor        uint64    `json:"cursor"`                  // newest event such that the hook has finished with it and all before it
	Posted        []uint64  `json:"posted,omitempty"`        // events after the cursor that are delivered, in no order
	Delivered     uint64    `json:"delivered"`               // number of events delivered since the hook was made
	LastDelivered time.Time `json:"last_delivered,omitzero"` // when the receiver last accepted an event
	Failing       time.Time `json:"failing,omitzero"`        // when the next event began to fail; zero: it does not fail
	Attempts      int       `json:"attempts,omitempty"`      // made for the next event
	NextAt        time.Time `json:"next_at,omitzero"`        // of the next attempt
	LastError     string    `json:"last_error,omitempty"`    // of the last attempt that failed
	Paused        string    `json:"paused,omitempty"`        // why nothing is sent until a person resumes the hook; empty: events are sent
	PausedAt      time.Time `json:"paused_at,omitzero"`      //

	// Made and Took record which changes of the hook have been applied: each change is applied once, across owners and restarts.
	Made time.Time `json:"made,omitzero"` // CreatedAt of the hook; a newer hook of the same name starts with new progress
	Took time.Time `json:"took,omitzero"` // changes up to this time are applied; zero: saved by a version that did not note it
}

// heed applies the changes made to a hook since p was saved, and returns its progress. If p is nil, or belongs to an earlier hook of this
// name, the hook starts at the event that its settings name, or else after the last event.
func (p *Progress) heed(h *Hook, last uint64) Progress {
	asked := h.asked()
	if p == nil || !p.Took.IsZero() && !p.Made.Equal(h.CreatedAt) {
		fresh := Progress{App: h.App, Name: h.Name, Cursor: last, Made: h.CreatedAt, Took: asked}
		if !h.FromAt.IsZero() {
			fresh.Cursor = h.From
		}
		return fresh
	}
	now := *p
	if !p.Took.IsZero() && asked.After(p.Took) {
		now.resume()
		if h.FromAt.After(p.Took) {
			now.Cursor, now.Posted = h.From, nil
		}
	}
	now.Made, now.Took = h.CreatedAt, asked
	return now
}

// resume forgets failures.
func (p *Progress) resume() {
	p.Paused, p.PausedAt = "", time.Time{}
	p.succeed()
}

// succeed notes that the event that failed does so no more.
func (p *Progress) succeed() {
	p.Failing, p.NextAt, p.Attempts, p.LastError = time.Time{}, time.Time{}, 0, ""
}

// State is a hook's condition in one word.
type State string

// States.
const (
	Active   State = "active"
	Failing  State = "failing"  // the next event fails and is tried again
	Paused   State = "paused"   // the hook failed for too long, or the receiver rejects all further events
	Disabled State = "disabled" // switched off
)

// Info is a hook without its secrets, for display.
type Info struct {
	Hook
	Progress
	State  State
	Newest uint64 // id of the newest event in the log, which shows how far the hook is behind
}

// Change holds the new settings of a hook. Secrets and Enabled keep their values if nil.
type Change struct {
	URL     string
	Types   []event.Type
	Secrets []string
	Enabled *bool
	Must    setting.Match // that the hook must have
}

// Store keeps hooks.
type Store = setting.Store[Hook]

// ProgressStore keeps the hooks' progress beside the events. Servers may share it: then each app's progress has one owner, and the store
// refuses writes by former owners.
type ProgressStore interface {
	// HookProgress reads the progress of an app's hooks, or of all apps if app is empty.
	HookProgress(ctx context.Context, app string) ([]Progress, error)
	// OwnHookProgress makes the caller the owner of an app's progress, with an epoch greater than all earlier ones, and reads the progress
	// in the same transaction.
	OwnHookProgress(ctx context.Context, app string) (epoch int64, list []Progress, err error)
	// SaveHookProgress writes, in one transaction, the progress of hooks whose apps this server owns. former lists the apps that another
	// server owns by now: SaveHookProgress writes nothing for them.
	SaveHookProgress(ctx context.Context, list []Saving) (former []string, err error)
}

// Saving is the progress of an app's hooks that its owner has to save.
type Saving struct {
	App    string
	Epoch  int64
	Forget []string   // names of deleted hooks whose progress is removed before the rest is written
	Save   []Progress // of the app's hooks
}

// Poster posts signed messages.
type Poster interface {
	// Check reports what is wrong with a URL and secrets, as a *notification.FieldError.
	Check(url string, secrets []string) error
	NewSecret() string
	// Post makes one attempt; its errors are those of package push.
	Post(ctx context.Context, secrets []string, url, id string, body []byte) error
}
