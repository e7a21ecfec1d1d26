// Package digest gathers notifications: the first of a recipient, category and key waits for a window, later ones join it, and one notification
// leaves for all.
package digest

import (
	"context"
	"time"

	"godwit.dev/godwit/internal/notify/mailbox"
)

// Module is the name of the module that sends digests, and of their tables.
const Module = "digest"

// Limits. A digest leaves at once when it reaches one of the first two.
const (
	// MaxBytes is how many bytes of contents a digest gathers: what a transaction reads and deletes.
	MaxBytes = 1 << 20
	// MaxOpen is how many digests of one recipient wait at the same time: each one becomes a notification.
	MaxOpen = 100
	// MaxOpenOfApp is how many digests of one app wait. Nodes count them now and then, so that some more may.
	MaxOpenOfApp = 1_000_000
	// Shown is how many of the newest items a digest shows.
	Shown = 3
)

// Lot is one notification for some recipients that is to gather.
type Lot struct {
	App, ID       string
	To            []string
	Category, Key string // by which it gathers; at most 128 bytes each
	Collapse      string // replaces waiting items with the same one; empty: none
	Created       time.Time
	Expires       time.Time // zero: some time after its digest
	Sum           []byte    // equal for equal contents
	Body          []byte    // what the digest needs of it
	Window        time.Duration
	Most          int   // items with which the digest leaves at once
	Refused       error // why it may not be stored, unless it is a duplicate; nil: it may
	// Known says that the lot is stored as a notification, unless it has gathered: only duplicates have results.
	Known bool

	Results []Result // one per recipient, filled by the store
}

// Result is what became of a lot for one recipient.
type Result struct {
	mailbox.AppendResult
	Absent   bool     // nothing is stored, and nothing was: of a known lot
	Digest   string   // in which a new item waits
	Opened   bool     // the item is the first
	Due      bool     // the digest is full, and leaves at once
	Until    int64    // when the digest leaves at the latest, in Unix milliseconds
	Expired  []string // ids of items that this one has found expired
	Replaced []string // ids of items that this one has replaced
}

// Digest is a digest.
type Digest struct {
	App, ID, To   string
	Category, Key string
	State         State
	Opened        time.Time
	Due           time.Time // when it leaves at the latest; of a full one, when it was full
	Sealed        time.Time // since then no item joins or leaves it; zero: it is open
	Ended         time.Time
	Items         int
}

// State is the state of a digest. The numbers are stored: never renumber.
type State int64

// States.
const (
	Open   State = 1
	Sealed State = 2 // it is about to leave
	Sent   State = 3
	Lapsed State = 4 // all of its items have expired before it could be stored as a notification
)

// String is the public name of a state.
func (s State) String() string {
	switch s {
	case Open, Sealed:
		return "waiting"
	case Sent:
		return "sent"
	}
	return "expired"
}

// Item is one notification in a digest.
type Item struct {
	ID      string
	Created time.Time
	Body    []byte
}

// Leaving is a digest that is to be sent now.
type Leaving struct {
	Digest
	Expires time.Time // the latest expiry of its items
	Newest  []Item    // at most Shown, newest first; none: nothing is left to be sent, and the digest is deleted
	Expired []string  // ids of the items that had expired when it was sealed
}

// Ref names a digest.
type Ref struct{ App, ID string }

// Store keeps digests and their items. Every method may be called by several nodes at the same time.
type Store interface {
	// Gather puts lots into digests.
	Gather(ctx context.Context, lots []*Lot, now time.Time) error
	// Due lists digests that are to leave, longest due first. next is when the next one is due; zero: none waits.
	Due(ctx context.Context, now time.Time, limit int) (due []Ref, next time.Time, err error)
	// Seal ends the gathering of digests and reads what is to be sent. It leaves out those that have ended.
	Seal(ctx context.Context, due []Ref, now time.Time) ([]Leaving, error)
	// End settles the items of digests that have left or lapsed, and returns their ids, in the order of the digests; nil: the digest is gone,
	// since its recipient was erased.
	End(ctx context.Context, done []Ref, as State, now time.Time) ([][]string, error)
	// Postpone makes a sealed digest due again at a later time.
	Postpone(ctx context.Context, r Ref, until time.Time) error

	// Lookup, Recall: see mailbox.Aside. Recall returns the recipients of the items that it has taken out.
	Lookup(ctx context.Context, app, id, to string, now time.Time) ([]mailbox.Record, error)
	Recall(ctx context.Context, app, id, to string, now time.Time) (recalled []string, found bool, err error)

	// Digests lists an app's digests, or those of one recipient, newest first, below the id before; empty: from the newest. waiting: only those
	// that have not ended.
	Digests(ctx context.Context, app, to string, waiting bool, before string, limit int) ([]Digest, error)
	// Digest returns a digest with the ids of its items, oldest first; mailbox.ErrNotFound if there is none.
	Digest(ctx context.Context, app, id string) (d Digest, items []string, err error)
	// Waiting counts the digests and items that wait, by app.
	Waiting(ctx context.Context) (map[string]Count, error)
	// Apps lists the apps with items.
	Apps(ctx context.Context) ([]string, error)

	// Prune deletes some of the items and digests that ended before a time.
	Prune(ctx context.Context, before time.Time) (more bool, err error)
	EraseRecipient(ctx context.Context, app, recipient string) (n int, err error)
	EraseApp(ctx context.Context, app string) error
}

// Count is how much waits.
type Count struct{ Digests, Items int64 }
