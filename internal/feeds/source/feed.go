package source

import (
	"context"
	"log/slog"

	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/objects/object"
)

// Kind is one kind of source: its fields, and how to connect to it.
type Kind interface {
	setting.Kind // Check sees a change, in which a stored secret may be absent
	// Open connects. It fails if the server does not answer within a few seconds.
	Open(ctx context.Context, t Target) (Feed, error)
}

// Target is the server that a source reads from.
type Target struct {
	App     string
	Values  setting.Values // secrets included
	Private bool           // private addresses may be dialled
	Log     *slog.Logger
}

// Feed is a connected source. Its checkpoint separates the entries that were taken from those that were not.
type Feed interface {
	// Finding names, in one word, the way in which the feed finds new entries.
	Finding() string
	// Run emits the entries behind the checkpoint, and new ones as they arrive, until ctx ends or the connection is lost.
	Run(ctx context.Context, to Emitter) error
	Close()
}

// Emitter stores the entries of a feed.
type Emitter interface {
	// Emit takes entries in order and returns the outcome of each once that is durable. Then the feed moves its checkpoint behind them, and
	// sets aside the entries in quarantine. While entries cannot be stored, Emit tries again. Its only error is the end of ctx. Calls do
	// not overlap.
	Emit(ctx context.Context, entries []Entry) ([]Outcome, error)
	// Caught reports that the feed has examined all entries once: the source works.
	Caught(ctx context.Context)
}

// Entry is a publish, a put or a deletion; an entry that is none of these goes to quarantine.
type Entry struct {
	From    string              // for log messages: the stream or table that holds the entry
	Publish *notification.Draft // to one recipient
	Put     *Put
	Delete  *object.Key // the version of this object becomes unknown
	Wrong   error       // why it is none
}

// Put is a version of an object.
type Put struct {
	Key object.Key
	object.Put
}

// Outcome is the result of an entry.
type Outcome struct {
	Fate Fate
	Err  error // why it is in quarantine
}

// Fate is an outcome in one word, as metrics name it.
type Fate string

// Fates.
const (
	Stored      Fate = "stored"      // in a mailbox, or as a version of an object
	Duplicate   Fate = "duplicate"   // had been before
	Expired     Fate = "expired"     // came too late
	Quarantined Fate = "quarantined" // the entry is invalid as it is
	Full        Fate = "full"        // its mailbox is full: the entry stays at the source and is read again later
)
