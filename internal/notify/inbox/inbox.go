// Package inbox is what people see of their notifications: those that a publish or its category keeps after they were delivered, each with
// whether its recipient has seen, read, archived or pinned it. "Delivered to a device" and "read by a person" are two things: an
// acknowledgement changes nothing here, and nothing here acknowledges.
package inbox

import (
	"context"
	"errors"
	"time"

	"godwit.dev/godwit/internal/notify/notification"
)

// Limits of an inbox. They are part of the public contract.
const (
	MaxKept    = 1000 // items of one recipient; the oldest go first, pinned ones last
	MaxChanged = 100  // ids in one Change
	MaxMarked  = 10   // items in one Change whose marks it has
)

// ErrNotFound says that the inbox has no such item.
var ErrNotFound = errors.New("the inbox has no such notification")

// State selects items.
type State uint8

// States.
const (
	All      State = iota // everything that is not archived
	Unseen                // the list was not opened since they came
	Unread                // not read; seen or not
	Archived              // put away
	Pinned                // to stay on top
)

var stateNames = [...]string{All: "all", Unseen: "unseen", Unread: "unread", Archived: "archived", Pinned: "pinned"}

func (s State) String() string { return stateNames[s] }

// StateNames lists the public names of states.
func StateNames() []string { return stateNames[:] }

// ParseState reads the public name of a state; empty is all.
func ParseState(name string) (State, bool) {
	if name == "" {
		return All, true
	}
	for s, n := range stateNames {
		if n == name {
			return State(s), true // of five
		}
	}
	return 0, false
}

// Count is how many items wait for their person. Archived ones do not.
type Count struct {
	Unseen int `json:"unseen"`
	Unread int `json:"unread"`
}

// Counts are the counts of an inbox. They are kept, not counted when they are read.
type Counts struct {
	Count
	Total      int              // items, archived ones too
	Categories map[string]Count // those that have items; the empty name is of items without a category
	// Revision changes with the inbox and with nothing else.
	Revision uint64
}

// Item is one kept notification.
type Item struct {
	Place   uint64 // in the inbox: grows with time, never reused
	ID      string
	Content notification.Content
	Pinned  bool

	CreatedAt, KeptUntil       time.Time
	SeenAt, ReadAt, ArchivedAt time.Time // zero: not yet
	// Answered is the id of the action that was chosen; empty: none was.
	Answered   string
	AnsweredAt time.Time
}

// Query selects a page of items, newest first.
type Query struct {
	State    State
	Category *string // nil: any
	Before   uint64  // only items of lower places; 0: from the newest
	Limit    int
	// Unless is a revision: if the inbox has it still, no items are read.
	Unless uint64
}

// Page is the answer to a Query, from one snapshot.
type Page struct {
	Counts
	Items  []Item
	Newest uint64 // the place of the newest item there has been
	More   bool
}

// Mark changes items: one by its id, or all within places.
type Mark struct {
	ID string // empty: From and To select items
	// From and To are places, both included.
	From, To uint64
	Category *string // nil: any
	// Each nil stays as it is. Reading and archiving imply seeing.
	Seen, Read, Archived, Pinned *bool
	// Answered is the id of an action, for one item, which it also makes read. The first answer stays; empty: none.
	Answered string
	At       time.Time
}

// Ref names an item.
type Ref struct {
	ID, Category string
	Alone        bool // it was marked by its id
}

// Marked is what an item is after it was marked.
type Marked struct {
	ID                           string
	Seen, Read, Archived, Pinned bool
	Answered                     string // id of the action that was chosen; empty: none was
}

// Owner is whose an inbox is.
type Owner struct{ App, Recipient string }

// Change is what a commit has changed in one inbox.
type Change struct {
	App, Recipient string
	Count                   // after the commit
	Revision       uint64   // after it; 0: a node of a former version did not tell
	Changed        []string // ids, at most MaxChanged
	More           bool     // there were more
	Marked         []Marked // changed items that have neither come nor gone, at most MaxMarked
	// Moved says that the unseen count has changed otherwise than by items that came.
	Moved bool

	At                   time.Time // of the next three
	Seen, Read, Archived []Ref
}

// Checked is what a check has found. Contents count the items that refer to them: if nothing changed meanwhile, there are as many references as items.
type Checked struct{ Inboxes, Items, References int64 }

// Store is what stores of mailboxes can do that have inboxes. Items come into an inbox by the commit of their publish, and leave it with the
// commit that withdraws, replaces or erases them.
type Store interface {
	// Inbox reads a page. An inbox that never had anything is empty.
	Inbox(ctx context.Context, app, recipient string, q Query) (Page, error)
	// InboxCounts reads counts alone.
	InboxCounts(ctx context.Context, app, recipient string) (Counts, error)
	// CountInboxes reads the counts of several inboxes of one app, in their order; those without an inbox have revision 0.
	CountInboxes(ctx context.Context, of []Owner) ([]Counts, error)
	// InboxItem reads one item, or fails with ErrNotFound.
	InboxItem(ctx context.Context, app, recipient, id string) (Item, error)
	// MarkInbox changes items and returns once that is on disk. A change of an id that is not there fails with ErrNotFound.
	MarkInbox(ctx context.Context, app, recipient string, m Mark) (Counts, error)
	// LeaveInbox removes an item from inboxes of recipients, and returns how many had it.
	LeaveInbox(ctx context.Context, app, id string, recipients []string) (n int, err error)
	// SweepInboxes removes some items whose time is over; more: call it again.
	SweepInboxes(ctx context.Context, now time.Time) (n int, more bool, err error)
	// CheckInboxes compares the kept counts of all inboxes with their items, and calls report for each that differs.
	CheckInboxes(ctx context.Context, report func(app, recipient, problem string)) (Checked, error)
	// InboxesUsed reports whether there may be an inbox with items: while there is none, nobody needs to look.
	InboxesUsed() bool
}
