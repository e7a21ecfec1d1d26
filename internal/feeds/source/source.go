// Package source takes notifications, and versions of objects, from where an app's publishers already put them. A kind of source knows one
// kind of place: it has a folder of its own.
package source

import (
	"context"
	"errors"
	"time"

	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/notify/delivery"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/objects/object"
)

// Errors that callers tell apart. Wrapped, never bare.
var (
	// ErrUnknown says that there is no such kind of source.
	ErrUnknown = errors.New("no such source")
	// ErrNone says that the app has no source of that kind.
	ErrNone = errors.New("source is not set up")
)

// Source is where notifications of an app come from. Its kind names it: an app has one of each.
type Source struct {
	App       string
	Kind      string
	Values    setting.Values // of the kind's fields
	Enabled   bool
	Private   bool // may lead to private addresses, because it was set by who owns the data folder
	CreatedAt time.Time
	UpdatedAt time.Time
}

func (s *Source) same(o *Source) bool {
	return s.Enabled == o.Enabled && s.Private == o.Private && s.CreatedAt.Equal(o.CreatedAt) && s.UpdatedAt.Equal(o.UpdatedAt) &&
		s.Values.Equal(o.Values)
}

// Change says what a source is to be. Enabled stays as it is where nil.
type Change struct {
	Values  setting.Values // in place of all values but the secrets that are not named; nil: all stay
	Enabled *bool
	Private bool // see Source; stays while the addresses do
}

// Store keeps sources, by kind.
type Store = setting.Store[Source]

// Publisher stores and routes.
type Publisher interface {
	Publish(ctx context.Context, app string, drafts []*notification.Draft) []delivery.Result
}

// Objects keeps versions of objects.
type Objects interface {
	Put(ctx context.Context, app string, k object.Key, p *object.Put) (st object.State, changed bool, err error)
}

// State is a source's condition in one word.
type State string

// States.
const (
	Reading  State = "reading"
	Failing  State = "failing"  // it cannot be read, or what was read cannot be stored; it is tried again
	Waiting  State = "waiting"  // another node reads it, or it is being connected to
	Disabled State = "disabled" // switched off
)

// Info is what may be seen of a source: never its password.
type Info struct {
	Source
	setting.View
	State   State
	Finding string    // how new entries are found; empty: not known now
	Error   string    // why it fails
	Since   time.Time // when it began to fail
	Counts  Counts
}

// Counts are of entries since this server began to read the source.
type Counts struct {
	Stored      uint64 // published into a mailbox
	Duplicate   uint64 // had been before
	Expired     uint64 // came too late
	Quarantined uint64 // were no notification
	Full        uint64 // found their mailbox full, and wait in Redis
}
