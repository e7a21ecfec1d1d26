// Package source reads notifications, and versions of objects, from systems in which an app's publishers already put them. Each kind of
// source supports one kind of system and has a folder of its own.
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

// Errors that callers distinguish. Functions return them wrapped, never bare.
var (
	// ErrUnknown says that no kind of source has this name.
	ErrUnknown = errors.New("no such source")
	// ErrNone says that the app has no source of that kind.
	ErrNone = errors.New("source is not set up")
)

// Source is a system from which an app's notifications are read. Its kind is its name: an app has at most one source of each kind.
type Source struct {
	App       string
	Kind      string
	Values    setting.Values // of the kind's fields
	Enabled   bool
	Private   bool // may connect to private addresses, because the owner of the data folder set it
	CreatedAt time.Time
	UpdatedAt time.Time
}

func (s *Source) same(o *Source) bool {
	return s.Enabled == o.Enabled && s.Private == o.Private && s.CreatedAt.Equal(o.CreatedAt) && s.UpdatedAt.Equal(o.UpdatedAt) &&
		s.Values.Equal(o.Values)
}

// Change has the new settings of a source. A nil Enabled leaves that setting unchanged.
type Change struct {
	Values  setting.Values // replaces all values except secrets that it does not name; nil: all stay
	Enabled *bool
	Private bool // see Source; unchanged while the addresses are
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
	Failing  State = "failing"  // the source cannot be read, or its entries cannot be stored; it is tried again
	Waiting  State = "waiting"  // another node reads the source, or this one is connecting
	Disabled State = "disabled" // switched off
)

// Info is a source without its password, for display.
type Info struct {
	Source
	setting.View
	State   State
	Finding string    // the way in which new entries are found; empty: unknown now
	Error   string    // why it fails
	Since   time.Time // when it began to fail
	Counts  Counts
}

// Counts are the numbers of entries since this server began to read the source.
type Counts struct {
	Stored      uint64 // published into a mailbox
	Duplicate   uint64 // had been before
	Expired     uint64 // came too late
	Quarantined uint64 // were no notification
	Full        uint64 // their mailbox was full; they wait at the source
}
