package mailbox

import (
	"context"
	"errors"
	"time"

	"godwit.dev/godwit/internal/notify/inbox"
	"godwit.dev/godwit/internal/notify/notification"
)

// Errors of a store that callers distinguish. Functions return them wrapped, never bare.
var (
	// ErrConflict: a notification with other content has the same id.
	ErrConflict = errors.New("another notification with this id exists")
	// ErrFull: the recipient has too many pending notifications.
	ErrFull = errors.New("too many pending notifications")
	// ErrNotFound: no such notification or recipient in this app.
	ErrNotFound = errors.New("not found")
	// ErrNoSpace: the disk is below its reserve; nothing was stored.
	ErrNoSpace = errors.New("not enough free disk space")
	// ErrAway: the store is on another machine and cannot be reached now. The request may or may not have been stored.
	ErrAway = errors.New("the store cannot be reached")
	// ErrClosed: the store is closing. The request may or may not have been stored.
	ErrClosed = errors.New("store is closed")
)

// DamagedError says that stored data was found damaged; the store accepts no writes until it is repaired.
type DamagedError struct{ What string }

func (e *DamagedError) Error() string { return "stored data is damaged: " + e.What }

// Item is one notification in one recipient's mailbox, in the form for routing and delivery.
type Item struct {
	Pos       int64 // increases within a recipient's mailbox in commit order, never reused; across recipients it roughly follows time
	Recipient string
	Seq       uint64 // counts per recipient, from 1; 0 while scheduled
	Attempts  uint32 // times written to a connection so far; a lower bound
	Escalates bool   // the notification has steps beyond live; set for copies that a commit has stored or made due
	N         *notification.Notification
}

// Append is a request to store one notification for one or more recipients.
type Append struct {
	N       *notification.Notification
	To      []string
	Fresh   bool           // the server has just made the id: it cannot be a duplicate
	Refused error          // why the notification may not be stored, which becomes the error of copies that are neither duplicates nor conflicts; nil: it may be stored
	Results []AppendResult // one per recipient, filled by the store
}

// AppendResult is the result for one recipient's copy.
type AppendResult struct {
	Status    notification.Status // scheduled, stored, or the status of the earlier copy
	Duplicate bool
	ExpiresAt time.Time // of the stored notification, which for a duplicate is the first one
	Err       error     // ErrConflict, ErrFull or Append.Refused
}

// Settle is a request to end one recipient's copy of a notification, or to count one device's acknowledgement or refusal (nack) of it.
type Settle struct {
	App, Recipient, ID string
	Pos                int64               // 0: look ID up
	As                 notification.Status // Acked, Replied, Delivered (ack "none"), Recalled or Failed
	Nack               bool                // a client could not accept the copy: counted, and after notification.MaxNacks of them the copy ends as Failed
	Reason             string              // of a nack; the store keeps the last reason given
	Device             string              // the acknowledging device or session id; used for ack "all"
	Online             []string            // for ack "all": all devices online now, by the same names
	At                 time.Time
	DeliveredAt        time.Time // zero: not known here
	Attempts           uint32
	Over               Over                // the connection on which the acknowledging session received the copy; zero: it was received otherwise
	Reply              *notification.Reply // for Replied; a copy without a question becomes Acked instead
	Outcome            SettleOutcome       // filled by the store
}

// SettleOutcome is the effect of a Settle.
type SettleOutcome uint8

// Outcomes.
const (
	SettleUnknown SettleOutcome = iota // no such notification for this recipient
	SettleDone                         // the copy is settled by this call
	SettlePartial                      // ack "all" or a nack: counted, and the copy stays open
	SettleAlready                      // it was settled before
	SettleLate                         // too late: the copy had expired undelivered, or more than 60 s ago
)

// Settled is one copy that has ended, for any reason.
type Settled struct {
	App, Recipient, ID string
	Pos                int64
	As                 notification.Status
	Escalates          bool   // it had steps beyond live
	Device             string // the device of the Settle, if one ended the copy
	Category           string // set for an expired copy if the store has read its category
	At                 time.Time
}

// Batch is the durable content of one commit.
type Batch struct {
	Stored  []Item         // newly stored items, each recipient's in commit order; Seq 0: scheduled, not to be delivered yet
	Due     []Item         // scheduled items that have become due
	Settled []Settled      // ended by this commit
	Inboxes []inbox.Change // inboxes that have changed
}

// Observer is informed of commits before Append returns to its callers. Commits for one recipient are reported in order, one call after the
// other; calls for different recipients may run at the same time. It must not call the store's writing methods and wait, and must not keep
// the batch, which is reused.
type Observer interface {
	Committed(b *Batch)
}

// Address names a recipient.
type Address struct{ App, Recipient string }

// Head is the state of a recipient's mailbox.
type Head struct {
	LastSeq uint64 // the newest seq; 0 if nothing is pending and only a read would find it
	Waits   bool   // Pending would find copies, unless Have or Device exclude them
}

// PendingQuery selects the copies that a recipient should receive next.
type PendingQuery struct {
	App, Recipient string
	Device         string  // excludes copies that this device has acknowledged already (ack "all")
	Have           []int64 // positions to exclude, since they are in flight on the querying session; sorted
	Limit          int
	Bytes          int // bytes of contents after which no further content is read; 0: no limit
}

// PendingResult is the result: unsettled copies that are due and not expired, ordered by priority, then seq.
type PendingResult struct {
	Items   []Item
	LastSeq uint64 // the recipient's newest seq in the same snapshot
	More    bool   // Limit or Bytes excluded further copies
}

// Ref identifies one copy by position.
type Ref struct {
	App, Recipient string
	Pos            int64
}

// Mark records a delivery of an unsettled copy, or its client's answer. Marks are best effort: a crash may lose them.
type Mark struct {
	App, Recipient, ID string
	Pos                int64
	Attempts           uint32
	DeliveredAt        time.Time // time of the first delivery; for a client's answer: the time of the answer
	Over               Over      // the connection
	What               What
	Ack                notification.AckMode // of the copy; if its delivery settles it, it counts as delivered only when that is on disk
	Device             string               // device of the session; empty: it has no name
	Reason             *string              // for Nacked; nil: the client gave none
	Category           string               // category of a copy that was written to a connection
	Told               bool                 // a Settle that follows contains the same data, so this mark need not be stored
}

// Seen records that a recipient was connected; if a device is named, the device becomes known.
type Seen struct {
	App, Recipient, Device string
	At                     time.Time
}

// Record is one copy in the form of the status API.
type Record struct {
	ID, To      string
	Status      notification.Status
	Ack         notification.AckMode
	Priority    notification.Priority
	Seq         uint64
	CreatedAt   time.Time
	SendAt      time.Time
	ExpiresAt   time.Time
	DeliveredAt time.Time
	SettledAt   time.Time
	Attempts    uint32
	Nacks       uint32 // how often a client could not accept the copy
	Reason      string // the reason of the last nack that gave one
	Pos         int64
	Reply       *notification.Reply // the answer, if the status is Replied and the copy was looked up for one recipient
	Digest      Digested            // zero: the copy did not gather
	Tried       []Attempt           // in the order of time, if the copy was looked up for one recipient; long lists are cut, and stores that keep no attempts return none
}

// Digested tells of the digest in which a copy waits or into which it went.
type Digested struct {
	ID    string    // of the notification that the digest becomes
	Due   time.Time // when it leaves at the latest
	Items int       // copies in it, of a digest that has left; else those that wait now
}

// Acked reports whether the copy was acknowledged or answered.
func (r *Record) Acked() bool {
	return r.Status == notification.Acked || r.Status == notification.Replied
}

// Due returns the time from which the copy was to be delivered.
func (r *Record) Due() time.Time {
	if r.SendAt.After(r.CreatedAt) {
		return r.SendAt
	}
	return r.CreatedAt
}

// RecipientInfo is the store's data about a recipient.
type RecipientInfo struct {
	Name     string
	Pending  int
	LastSeq  uint64
	LastSeen time.Time
	Devices  []string
}

// Stats are the numbers for metrics and the top view.
type Stats struct {
	Pending, Scheduled int64
	Queued             int // operations waiting for the writer
	Commits, Appends   uint64
	FreeBytes          int64
	Full               bool // publishes are refused for lack of space
}

// Store keeps mailboxes. Every implementation must pass storetest. All methods are safe for concurrent use. A returned error means that the
// call promises nothing (an append may still have been stored). The interface consists of four parts for four kinds of callers, so that a
// store can lack one of them.
type Store interface {
	Writer
	Reader
	Upkeep
	Admin

	// Observe sets the observer of all further commits, and replaces the one before. Before it is called, commits are not reported.
	Observe(obs Observer)
	// Clock returns the clock that decides what is due and what has expired. It never jumps or goes back.
	Clock() func() time.Time
}

// Writer holds the changes that publishers and sessions make.
type Writer interface {
	// Append returns once everything is on disk and the Observer was called.
	Append(ctx context.Context, batch []*Append) error
	// Settle returns once the outcomes are on disk and the Observer was called.
	Settle(ctx context.Context, batch []*Settle) error
	// SettleLater takes over the batch, queues it like Settle and does not wait: acks are written with the next commit or after 5 ms, on PostgreSQL 25 ms.
	SettleLater(batch []*Settle)
	// Mark and Seen queue records that are written with some later commit. The batch stays the caller's.
	Mark(batch []Mark)
	Seen(batch []Seen)
}

// Diverter is implemented by stores that one server may fail to reach while another server reaches them.
type Diverter interface {
	// Divert sets a function that gets the acknowledgements for which no caller waits, while the store cannot be reached. by takes over a
	// batch, or returns false; it does not wait. Acknowledgements that cannot be sent on come back through SettleLater.
	Divert(by func(batch []*Settle) bool)
}

// Reader holds the queries that sessions need to deliver.
type Reader interface {
	// Heads returns the heads of many mailboxes without reading a notification. It is called for every session every half minute, and
	// nearly always finds that nothing waits.
	Heads(ctx context.Context, of []Address) ([]Head, error)
	// Pending finds the copies for many recipients in a few reads and does not wait for the writer.
	Pending(ctx context.Context, qs []PendingQuery) ([]PendingResult, error)
	// Items reads copies by position; those settled or expired meanwhile are nil in the result.
	Items(ctx context.Context, refs []Ref) ([]*Item, error)
	// Lookup finds a notification by id, for one recipient, or for all if to is empty.
	Lookup(ctx context.Context, app, id, to string) ([]Record, error)
}

// Copies is implemented by stores whose notifications may have very many copies.
type Copies interface {
	// Copies finds at most limit copies of a notification by its id and reads no more, or fails with ErrNotFound.
	Copies(ctx context.Context, app, id string, limit int) ([]Record, error)
}

// Upkeep is the work that becomes due with time. Each call does a limited amount of it.
type Upkeep interface {
	// Due makes scheduled copies deliverable at their time, Expire ends overdue ones. Each returns the time of the next call
	// (zero: nothing waits).
	Due(ctx context.Context, now time.Time) (next time.Time, err error)
	Expire(ctx context.Context, now time.Time) (next time.Time, err error)
	// Prune deletes copies that were settled before retainedSince.
	Prune(ctx context.Context, retainedSince time.Time) (more bool, err error)
	// LookAgain is the longest pause between calls of Due and Expire while this process knows of nothing due: an hour if no other process
	// writes to the store, a second if one may.
	LookAgain() time.Duration
}

// Admin holds operations that operators request.
type Admin interface {
	// History lists a recipient's copies, newest first. Status 0 means any. cursor is a position; 0 begins with the newest.
	History(ctx context.Context, app, recipient string, status notification.Status, limit int, cursor int64) (items []Record, next int64, err error)
	Recipients(ctx context.Context, app string, limit int, cursor string) (items []RecipientInfo, next string, err error)
	Recipient(ctx context.Context, app, recipient string) (RecipientInfo, error)
	// Erase deletes a recipient, all its notifications, and its counter.
	Erase(ctx context.Context, app, recipient string) error
	Stats() Stats
	// Ready returns the reason why the store cannot store anything now, or nil.
	Ready(ctx context.Context) error
}
