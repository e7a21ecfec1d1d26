package source

import (
	"context"
	"log/slog"
	"time"

	"godwit.dev/godwit/internal/access/urlguard"
	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/messaging/pubsub"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/objects/object"
)

// Kind is one kind of source: its fields, and how to connect to it.
type Kind interface {
	setting.Kind // Check sees a change, in which a stored secret may be absent
	// About says in a few words what is read.
	About() string
	// Open connects. It fails if the server does not answer within a few seconds.
	Open(ctx context.Context, t Target) (Feed, error)
}

// Target is the server that a source reads from.
type Target struct {
	App     string
	Name    string           // of the source
	Values  setting.Values   // secrets included
	Targets urlguard.Targets // that may be dialled
	Log     *slog.Logger
	Now     func() time.Time // the stores' clock
	// Position is what the feed has noted with Emitter.Note; nil: nothing.
	Position []byte
	// Resync is set when a person wants the source to begin anew. A feed that has done so calls Emitter.Resynced.
	Resync bool
}

// Sole is a Kind of which two sources must not read the same.
type Sole interface {
	// Reads names what a source reads, as far as its place and values tell: two names of one server differ. Sources with the same name would take
	// entries from each other, or send them twice.
	Reads(at setting.Place, v setting.Values) string
	// What returns its name for people, as the values have it.
	What(at setting.Place, v setting.Values) string
}

// Feed is a connected source. Its checkpoint separates the entries that were taken from those that were not.
type Feed interface {
	// Finding names, in one word, the way in which the feed finds new entries.
	Finding() string
	// Run emits the entries behind the checkpoint, and new ones as they arrive, until ctx ends or the connection is lost.
	Run(ctx context.Context, to Emitter) error
	Close()
}

// Remover is a Kind that holds something at the source, such as a replication slot, which must go when the source is deleted.
type Remover interface {
	Remove(ctx context.Context, t Target) error
}

// Schemer is a Kind that reads a table which a person makes.
type Schemer interface {
	// Schema is the SQL that makes the table.
	Schema() string
}

// Emitter stores the entries of a feed. Its methods' only error is the end of ctx: what cannot be stored is tried again. Calls do not
// overlap.
type Emitter interface {
	// Emit takes entries in order and returns the outcome of each once that is durable. Then the feed moves its checkpoint behind them. An
	// entry in quarantine that has a text is kept there.
	Emit(ctx context.Context, entries []Entry) ([]Outcome, error)
	// SetAside puts an entry into quarantine that the feed cannot leave at the source.
	SetAside(ctx context.Context, e *Entry, why error) error
	// Unknown makes the versions of all objects of a group unknown: those below a version, or with 0 all.
	Unknown(ctx context.Context, group string, below object.Version) error
	// Note keeps what the feed wants to know when it is opened again.
	Note(ctx context.Context, position []byte) error
	// Resynced reports that the feed has begun anew.
	Resynced(ctx context.Context) error
	// Caught reports that the feed has examined all entries once: the source works.
	Caught(ctx context.Context)
	// Detail sets what a person should know beside the state; empty: nothing. It and Lag may be called beside other methods.
	Detail(text string)
	// Lag sets how far the feed is behind.
	Lag(l Lag)
}

// Entry is a publish, a put, a deletion or a message; an entry that is none of these goes to quarantine.
type Entry struct {
	From string // place of the entry at the source, such as a stream, a row or a position; for people
	// Stream is what the entry belongs to. Only the first invalid entry of a stream is logged. Empty: From.
	Stream string
	// ID is the id of a publish whose body has none, so that a repeat is a duplicate.
	ID string
	// Version is that of the entry's commit. Puts and deletions without a version have it, so that a repeat changes nothing. Entries of one
	// commit follow each other, and the versions of two commits differ by 30 at least. 0: the server assigns the next one.
	Version object.Version
	Last    bool // no later entry has this Version
	// Body is the entry as JSON: a publish as POST /v1/notifications takes it, {"put":…}, {"delete":…}, {"topic":…,"data":…} or a list of
	// these. Nil: one of the following is set.
	Body []byte

	Publish *notification.Draft
	Put     *Put
	Delete  *object.Key // the version of this object becomes unknown
	Message *pubsub.Message
	Wrong   error  // why it is none
	Text    []byte // of the entry, for the quarantine; nil: Body
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

// Fates, from the best to the worst: a list has that of its worst member.
const (
	Expired     Fate = "expired"     // came too late
	Duplicate   Fate = "duplicate"   // had been before
	Stored      Fate = "stored"      // in a mailbox, as a version of an object, or sent to a topic
	Full        Fate = "full"        // its mailbox is full: the entry stays at the source and is read again later
	Quarantined Fate = "quarantined" // the entry is invalid as it is
)
