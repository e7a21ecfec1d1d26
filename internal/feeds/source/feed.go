package source

import (
	"context"

	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/objects/object"
)

// Kind is one kind of source: its own fields, and how it is connected to.
type Kind interface {
	setting.Kind // Check sees a change: a stored secret may be absent
	// Open connects. It fails where nothing answers within a few seconds.
	Open(ctx context.Context, t Target) (Feed, error)
}

// Target is what a source leads to.
type Target struct {
	App     string
	Values  setting.Values // secrets included
	Private bool           // private addresses may be dialled
}

// Feed is a source that is connected to. It has a checkpoint: behind it is what was not taken yet.
type Feed interface {
	// Finding is how the feed finds out what is new, in one word.
	Finding() string
	// Run emits what is behind the checkpoint, and what comes, until ctx ends or the connection is lost.
	Run(ctx context.Context, to Emitter) error
	Close()
}

// Emitter takes entries from a feed.
type Emitter interface {
	// Emit takes entries in order and returns, once that is durable, what became of each: then the feed moves its checkpoint behind them, and
	// sets aside the entries in quarantine. While entries cannot be stored, Emit tries again. Its error is the end of ctx. Calls do not
	// overlap.
	Emit(ctx context.Context, entries []Entry) ([]Outcome, error)
	// Caught says that the feed has looked at everything once: the source works.
	Caught(ctx context.Context)
}

// Entry is one of a publish, a put and a deletion; or none, which goes to quarantine.
type Entry struct {
	From    string              // in the log: the stream or table that holds it
	Publish *notification.Draft // to one recipient
	Put     *Put
	Delete  *object.Key // nobody knows the object's version any more
	Wrong   error       // why it is none
}

// Put is a version of an object.
type Put struct {
	Key object.Key
	object.Put
}

// Outcome is what became of an entry.
type Outcome struct {
	Fate Fate
	Err  error // why it is in quarantine
}

// Fate is an outcome in one word, as metrics have it.
type Fate string

// Fates.
const (
	Stored      Fate = "stored"      // in a mailbox, or as the version of an object
	Duplicate   Fate = "duplicate"   // had been before
	Expired     Fate = "expired"     // came too late
	Quarantined Fate = "quarantined" // cannot be taken as it is
	Full        Fate = "full"        // its mailbox is full: the entry waits at the source, and comes again
)
