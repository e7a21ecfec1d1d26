package mailbox

import (
	"context"
	"errors"
	"time"

	"godwit.dev/godwit/internal/notify/notification"
)

// Errors of a store that callers distinguish. Wrapped, never bare.
var (
	// ErrConflict: a notification of other content has the same id.
	ErrConflict = errors.New("another notification with this id exists")
	// ErrFull: the recipient has too many pending notifications.
	ErrFull = errors.New("too many pending notifications")
	// ErrNotFound: no such notification or recipient in this app.
	ErrNotFound = errors.New("not found")
	// ErrNoSpace: the disk is below its reserve; nothing was stored.
	ErrNoSpace = errors.New("not enough free disk space")
	// ErrAway: the store is elsewhere and cannot be reached now. The request may or may not have been stored.
	ErrAway = errors.New("the store cannot be reached")
	// ErrClosed: the store is closing. The request may or may not have been stored.
	ErrClosed = errors.New("store is closed")
)

// DamagedError says that stored data was found damaged; the store takes nothing more until it is repaired.
type DamagedError struct{ What string }

func (e *DamagedError) Error() string { return "stored data is damaged: " + e.What }

// Item is one notification in one recipient's mailbox, as it is routed and delivered.
type Item struct {
	Pos       int64 // grows within a recipient's mailbox in commit order, never reused; across recipients it follows time roughly
	Recipient string
	Seq       uint64 // counts per recipient from 1; 0 while scheduled
	Attempts  uint32 // times written to a connection so far, at least
	Escalates bool   // it has steps beyond live; set for copies that a commit has stored or made due
	N         *notification.Notification
}

// Append is a request to store one notification for one or more recipients.
type Append struct {
	N       *notification.Notification
	To      []string
	Fresh   bool           // the id was made by this server just now: it cannot be a duplicate
	Refused error          // why it may not be stored; copies that are neither duplicates nor conflicts get it. Nil: it may
	Results []AppendResult // one per recipient, filled by the store
}

// AppendResult is the result for one recipient's copy.
type AppendResult struct {
	Status    notification.Status // scheduled, stored, or the status of the earlier copy
	Duplicate bool
	ExpiresAt time.Time // of the stored one, which for a duplicate is the first
	Err       error     // ErrConflict, ErrFull or Append.Refused
}

// Settle is a request to end one recipient's copy of a notification, or to count one device's acknowledgement of it, or
// one more refusal by a device (nack).
type Settle struct {
	App, Recipient, ID string
	Pos                int64               // 0: look ID up
	As                 notification.Status // Acked, Replied, Delivered (ack "none"), Recalled or Failed
	Nack               bool                // a client could not take it: counted, and after notification.MaxNacks of them the copy ends as Failed
	Reason             string              // of a nack; kept, the last one that gave any
	Device             string              // the acknowledging device or session id; for ack "all"
	Online             []string            // for ack "all": all devices online now, by the same names
	At                 time.Time
	DeliveredAt        time.Time // zero: not known here
	Attempts           uint32
	Over               Over                // the connection on which the acknowledging session had got it; zero: it came another way
	Reply              *notification.Reply // of Replied; a copy without a question becomes Acked instead
	Outcome            SettleOutcome       // filled by the store
}

// SettleOutcome is the effect of a Settle.
type SettleOutcome uint8

// Outcomes.
const (
	SettleUnknown SettleOutcome = iota // no such notification for this recipient
	SettleDone                         // it is settled by this call
	SettlePartial                      // ack "all" or a nack: counted, and the copy stays open
	SettleAlready                      // it was settled before
	SettleLate                         // too late: it had expired undelivered or more than 60 s ago
)

// Settled is one copy that has ended, for any reason.
type Settled struct {
	App, Recipient, ID string
	Pos                int64
	As                 notification.Status
	Escalates          bool   // it had steps beyond live
	Device             string // the Settle's, if one did it
	Category           string // of an expired copy, where the store has read it
	At                 time.Time
}

// Batch is the durable content of one commit.
type Batch struct {
	Stored  []Item    // newly stored, each recipient's in commit order; Seq 0: scheduled, not to be delivered yet
	Due     []Item    // scheduled ones that have become due
	Settled []Settled // ended by this commit
}

// Observer learns of commits before Append returns to its callers. Commits for one recipient arrive in order, one call after the
// other; those for different recipients may arrive at once. It must not call the store's writing methods and wait, nor keep the
// batch: it is reused.
type Observer interface {
	Committed(b *Batch)
}

// Address names a recipient.
type Address struct{ App, Recipient string }

// Head is the state of a recipient's mailbox.
type Head struct {
	LastSeq uint64 // the newest seq; 0 if nothing is pending and a read would be needed to know it
	Waits   bool   // Pending would find something if no position and no device was left out
}

// PendingQuery selects the copies that a recipient should get next.
type PendingQuery struct {
	App, Recipient string
	Device         string  // leave out copies that this device has acknowledged already (ack "all")
	Have           []int64 // positions to leave out: in flight on the querying session; sorted
	Limit          int
	Bytes          int // of contents, after which no further one is read; 0: no limit
}

// PendingResult is the answer: in order of priority, then seq, unsettled, due, not expired.
type PendingResult struct {
	Items   []Item
	LastSeq uint64 // the recipient's newest seq in the same snapshot
	More    bool   // further ones were left out by Limit or Bytes
}

// Ref names one copy by position.
type Ref struct {
	App, Recipient string
	Pos            int64
}

// Mark records a delivery of an unsettled copy, or its client's answer to it. Best effort: marks may be lost in a crash.
type Mark struct {
	App, Recipient, ID string
	Pos                int64
	Attempts           uint32
	DeliveredAt        time.Time // the first one counts; for a client's answer: the time of the answer
	Over               Over      // the connection
	What               What
	Ack                notification.AckMode // of the copy: where a delivery settles it, it counts as delivered once that is on disk
	Device             string               // of the session; empty: it names none
	Reason             *string              // of Nacked; nil: it gave none
	Category           string               // of a copy that was written to a connection
	Told               bool                 // a Settle that follows contains the same: this need not be noted
}

// Seen records that a recipient was connected; with a device, that the device is known.
type Seen struct {
	App, Recipient, Device string
	At                     time.Time
}

// Record is one copy as the status API shows it.
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
	Nacks       uint32 // times that a client could not take it
	Reason      string // the last one that a nack gave
	Pos         int64
	Reply       *notification.Reply // the answer, if Replied and looked up for one recipient
	Tried       []Attempt           // in the order of time, where it was looked up for one recipient; not all of many, and none if they are not kept
}

// Acked reports whether it was acknowledged or answered.
func (r *Record) Acked() bool {
	return r.Status == notification.Acked || r.Status == notification.Replied
}

// Due is when the copy was to reach its recipient from.
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

// Stats are figures for metrics and the top view.
type Stats struct {
	Pending, Scheduled int64
	Queued             int // operations waiting for the writer
	Commits, Appends   uint64
	FreeBytes          int64
	Full               bool // publishes are refused for lack of space
}

// Store keeps mailboxes. Every implementation must pass storetest. All methods are safe for concurrent use; a
// returned error means that nothing of the call is promised (an append may still have been stored). It is four
// things to four callers, so that a store that cannot do one of them can say so.
type Store interface {
	Writer
	Reader
	Upkeep
	Admin

	// Observe sets the observer of all further commits, in place of the one before. Before it is called, commits are not
	// reported.
	Observe(obs Observer)
	// Clock is the clock that decides what is due and what has expired. It neither jumps nor goes back.
	Clock() func() time.Time
}

// Writer holds the changes that publishers and sessions make.
type Writer interface {
	// Append returns once everything is on disk and the Observer was called.
	Append(ctx context.Context, batch []*Append) error
	// Settle returns once the outcomes are on disk and the Observer was called.
	Settle(ctx context.Context, batch []*Settle) error
	// SettleLater takes the batch over, queues it like Settle and does not wait: acks ride on the next commit or a 5 ms timer.
	SettleLater(batch []*Settle)
	// Mark and Seen queue notes that are written with some later commit. The batch stays the caller's.
	Mark(batch []Mark)
	Seen(batch []Seen)
}

// Diverter is a Store that may be out of reach while another server reaches it.
type Diverter interface {
	// Divert passes acknowledgements that nobody waits for to by while the store cannot be reached. It takes a batch over, or
	// reports false; it does not wait. Those that cannot be sent on come back by SettleLater.
	Divert(by func(batch []*Settle) bool)
}

// Reader holds the queries that sessions need to deliver.
type Reader interface {
	// Heads answers for many recipients in one go, without reading a notification: it is asked for every session every
	// half minute, and nearly always finds that nothing waits.
	Heads(ctx context.Context, of []Address) ([]Head, error)
	// Pending answers many recipients in a few reads and does not wait for the writer.
	Pending(ctx context.Context, qs []PendingQuery) ([]PendingResult, error)
	// Items reads copies by position; those settled or expired meanwhile are nil in the answer.
	Items(ctx context.Context, refs []Ref) ([]*Item, error)
	// Lookup finds a notification by id, for one recipient or, with to empty, all.
	Lookup(ctx context.Context, app, id, to string) ([]Record, error)
}

// Copies is implemented by stores whose notifications may have very many copies.
type Copies interface {
	// Copies finds copies of a notification by its id, so many at most, or fails with ErrNotFound. It reads no more than these.
	Copies(ctx context.Context, app, id string, limit int) ([]Record, error)
}

// Upkeep is the work that becomes due with time. Each call does a limited slice.
type Upkeep interface {
	// Due makes scheduled copies deliverable at their time, Expire ends overdue ones. Each returns the time of the next call
	// (zero: nothing waits).
	Due(ctx context.Context, now time.Time) (next time.Time, err error)
	Expire(ctx context.Context, now time.Time) (next time.Time, err error)
	// Prune deletes copies that settled before retainedSince.
	Prune(ctx context.Context, retainedSince time.Time) (more bool, err error)
	// LookAgain is the longest pause between calls of Due and Expire when this process knows of nothing due: an hour if no
	// other process writes, a second if one may.
	LookAgain() time.Duration
}

// Admin holds operations that people request.
type Admin interface {
	// History lists a recipient's copies, newest first; status 0 is any; cursor is a position (0: from the newest).
	History(ctx context.Context, app, recipient string, status notification.Status, limit int, cursor int64) (items []Record, next int64, err error)
	Recipients(ctx context.Context, app string, limit int, cursor string) (items []RecipientInfo, next string, err error)
	Recipient(ctx context.Context, app, recipient string) (RecipientInfo, error)
	// Erase deletes a recipient, all its notifications, and its counter.
	Erase(ctx context.Context, app, recipient string) error
	Stats() Stats
	// Ready returns the reason why nothing could be stored now, or nil.
	Ready(ctx context.Context) error
}
