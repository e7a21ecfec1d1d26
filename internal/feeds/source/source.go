// Package source reads notifications, versions of objects and messages of topics from systems in which an app's publishers already put them.
// Each kind of source supports one kind of system and has a folder of its own.
package source

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"godwit.dev/godwit/internal/access/urlguard"
	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/messaging/pubsub"
	"godwit.dev/godwit/internal/notify/delivery"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/objects/object"
)

// Errors that callers distinguish. Functions return them wrapped, never bare.
var (
	// ErrUnknown says that no kind of source has this name.
	ErrUnknown = errors.New("no such source")
	// ErrNone says that the app has no source of that name.
	ErrNone = errors.New("source is not set up")
)

// MaxSources is the maximum number of an app's sources: each holds a connection.
const MaxSources = 32

// Source is a system from which an app's notifications are read.
type Source struct {
	App       string
	Name      string
	Kind      string
	Values    setting.Values // of the kind's fields
	Enabled   bool
	Private   bool      // may connect to private addresses, because the owner of the data folder set it
	ResyncAt  time.Time // when the source was last told to begin anew
	CreatedAt time.Time
	UpdatedAt time.Time
}

func (s *Source) same(o *Source) bool {
	return s.Kind == o.Kind && s.Enabled == o.Enabled && s.Private == o.Private && s.ResyncAt.Equal(o.ResyncAt) &&
		s.CreatedAt.Equal(o.CreatedAt) && s.UpdatedAt.Equal(o.UpdatedAt) && s.Values.Equal(o.Values)
}

// targets are those of a source: what the owner of the data folder has set has no limits, and everything else those of the server.
func (s *Source) targets(server urlguard.Targets) urlguard.Targets {
	if s.Private {
		return urlguard.All
	}
	return server
}

func (s *Source) place() setting.Place { return setting.Place{App: s.App, Name: s.Name} }

// Change has the new settings of a source. A nil Enabled leaves that setting unchanged.
type Change struct {
	Kind    string         // of a source that is made; empty: the source's name is that of its kind
	Values  setting.Values // replaces all values except secrets that it does not name; nil: all stay
	Enabled *bool
	Private bool          // see Source; unchanged while the addresses are
	Resync  bool          // the source begins anew
	Must    setting.Match // that the source must have
}

// Store keeps sources, by name.
type Store = setting.Store[Source]

// Publisher stores and routes.
type Publisher interface {
	Publish(ctx context.Context, app string, drafts []*notification.Draft) []delivery.Result
}

// Objects keeps versions of objects.
type Objects interface {
	Put(ctx context.Context, app string, k object.Key, p *object.Put) (st object.State, changed bool, err error)
	// Names returns names of objects of a group behind a name, and the name to go on behind. Empty: these were the last.
	Names(ctx context.Context, app, group, after string, limit int) (names []string, next string, err error)
}

// Topics passes messages to the present subscribers of a topic.
type Topics interface {
	Publish(ctx context.Context, app string, m *pubsub.Message) error
}

// Records are what sources keep beside their settings: the position of feeds, and entries in quarantine.
type Records interface {
	// Position returns what a feed has noted; nil: nothing.
	Position(ctx context.Context, at setting.Place) ([]byte, error)
	// Note replaces what a feed has noted.
	Note(ctx context.Context, at setting.Place, position []byte) error
	// SetAside adds entries to the quarantine of a source, which keeps the newest MaxSetAside.
	SetAside(ctx context.Context, at setting.Place, entries []SetAside) error
	// Quarantine returns entries in quarantine, newest first, below a number. Zero: from the newest.
	Quarantine(ctx context.Context, at setting.Place, below int64, limit int) ([]SetAside, error)
	// Forget deletes the entries in quarantine of a source, and with all everything about it.
	Forget(ctx context.Context, at setting.Place, all bool) error
}

// Limits of the quarantine.
const (
	MaxSetAside     = 1_000    // entries of a source: the newest stay
	MaxSetAsideText = 64 << 10 // bytes of an entry's text
)

// SetAside is an entry in quarantine.
type SetAside struct {
	Number int64 // grows
	At     time.Time
	From   string // place of the entry at the source
	Why    string
	Text   []byte // the entry itself, cut to MaxSetAsideText
}

// State is a source's condition in one word.
type State string

// States.
const (
	Running State = "running"
	Failing State = "failing" // the source cannot be read, or its entries cannot be stored; it is tried again
	Waiting State = "waiting" // another node reads the source, or this one is connecting
	Paused  State = "paused"  // switched off
)

// Info is a source without its password, for display.
type Info struct {
	Source
	setting.View
	State   State
	Finding string    // the way in which new entries are found; empty: unknown now
	Error   string    // why it fails
	Since   time.Time // when it began to fail
	Detail  string    // what a person should know beside the state
	Lag     *Lag      // nil: unknown
	Counts  Counts
	// Previews reports that the kind is a Previewer.
	Previews bool
}

// Lag is how far a source is behind.
type Lag struct {
	Bytes   int64         // of the source's log, or zero where it has none
	Entries int64         // that wait, or zero where they are not counted
	Time    time.Duration // age of the oldest entry that waits
}

// Counts are the numbers of entries since this server began to read the source.
type Counts struct {
	Stored      uint64 // published into a mailbox, put, or sent to a topic
	Duplicate   uint64 // had been before
	Expired     uint64 // came too late
	Quarantined uint64 // were no notification
	Full        uint64 // their mailbox was full; they wait at the source
}

// position is the form in which a feed's position is kept.
type position struct {
	Made     time.Time       `json:"made"`               // when the source was; a source that is made anew begins without a position
	ResyncAt time.Time       `json:"resync_at,omitzero"` // the last resync that was carried out
	Feed     json.RawMessage `json:"feed,omitempty"`
}
