package mailbox

import (
	"context"
	"errors"
	"time"

	"godwit.dev/godwit/internal/notify/notification"
)

// Errors of a store that callers tell apart. Wrapped, never bare.
var (
	// ErrConflict: the id is taken by a notification of other content.
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
	Attempts  uint32 // times written to a connection so far, as far as is known
	Escalates bool   // it has steps beyond live; of what a commit has stored or made due
	N         *notification.Notification
}

// Append asks to store one notification for one or more recipients.
type Append struct {
	N       *notification.Notification
	To      []string
	Fresh   bool           // the id was made by this server just now: it cannot be a duplicate
	Refused error          // why it may not be stored; copies that are neither duplicates nor conflicts get it. Nil: it may
	Results []AppendResult // one per recipient, filled by the store
}

// AppendResult says what became of one recipient's copy.
type AppendResult struct {
	Status    notification.Status // scheduled, stored, or where a duplicate stands
	Duplicate bool
	ExpiresAt time.Time // of the stored one, which for a duplicate is the first
	Err       error     // ErrConflict, ErrFull or Append.Refused
}

// Settle asks to end one recipient's copy of a notification, or to count one device's acknowledgement of it, or one more
// time that a device could not take it.
type Settle struct {
	App, Recipient, ID string
	Pos                int64               // 0: look ID up
	As                 notification.Status // Acked, Replied, Delivered (ack "none"), Recalled or Failed
	Nack               bool                // a client could not take it: counted, and notification.MaxNacks of them end it As Failed
	Reason             string              // of a nack; kept, the last one that gave any
	Device             string              // who acknowledges: device name or session id; for ack "all"
	Online             []string            // for ack "all": all devices online now, by the same names
	At                 time.Time
	DeliveredAt        time.Time // zero: not known here
	Attempts           uint32
	Over               Over                // the connection of the session that says so and had written it; zero: it is said by another way
	Reply              *notification.Reply // of Replied; what did not ask for one is Acked instead
	Outcome            SettleOutcome       // filled by the store
}

// SettleOutcome is what a Settle did.
type SettleOutcome uint8

// Outcomes.
const (
	SettleUnknown SettleOutcome = iota // no such notification for this recipient
	SettleDone                         // it is settled by this call
	SettlePartial                      // ack "all" or a nack: counted, others are waited for
	SettleAlready                      // it was settled before
	SettleLate                         // too late: it had expired undelivered or more than 60 s ago
)

// Settled is one copy that reached its end, whatever ended it.
type Settled struct {
	App, Recipient, ID string
	Pos                int64
	As                 notification.Status
	Escalates          bool   // it had steps beyond live
	Device             string // the Settle's, if one did it
	Category           string // of an expired copy, where the store has read it
	At                 time.Time
}

// Batch is what one commit made durable.
type Batch struct {
	Stored  []Item    // newly stored, each recipient's in commit order; Seq 0: scheduled, not to be delivered yet
	Due     []Item    // scheduled ones that have become due
	Settled []Settled // ended by this commit
}

// Observer learns of commits before the callers of Append are answered. Commits for one recipient arrive in order, one call after
// the other; those for different recipients may arrive at once. It must not call the store's writing methods and wait, nor keep
// the batch: it is reused.
type Observer interface {
	Committed(b *Batch)
}

// Address names a recipient.
type Address struct{ App, Recipient string }

// Head is how a recipient's mailbox stands.
type Head struct {
	LastSeq uint64 // the newest seq; 0 where nothing waits and a read would be needed to know it
	Waits   bool   // Pending would find something if no position and no device was left out
}

// PendingQuery asks for what a recipient should get next.
type PendingQuery struct {
	App, Recipient string
	Device         string  // leave out what this device has acknowledged already (ack "all")
	Have           []int64 // positions to leave out: in flight on the asking session; sorted
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
	Told               bool                 // a Settle that follows tells all of it: it need not be noted
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
	Reply       *notification.Reply // of one that is Replied, where it was looked up for one recipient
	Tried       []Attempt           // in the order of time, where it was looked up for one recipient; not all of many, and none if they are not kept
}

// Acked reports whether somebody has acknowledged it, or answered.
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

// RecipientInfo is what the store knows of a recipient.
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

	// Observe has an observer told of every commit from now on, instead of the one before. Until it is called nobody is told.
	Observe(obs Observer)
	// Clock is the time by which the store judges what is due and what has expired. It neither jumps nor goes back.
	Clock() func() time.Time
}

// Writer is what publishers and sessions change.
type Writer interface {
	// Append returns once everything is on disk and the Observer has been told.
	Append(ctx context.Context, batch []*Append) error
	// Settle returns once the outcomes are on disk and the Observer has been told.
	Settle(ctx context.Context, batch []*Settle) error
	// SettleLater takes the batch over, queues it like Settle and does not wait: acks ride on the next commit or a 5 ms timer.
	SettleLater(batch []*Settle)
	// Mark and Seen queue notes that are written with some later commit. The batch stays the caller's.
	Mark(batch []Mark)
	Seen(batch []Seen)
}

// Diverter is a Store that may be out of reach while another server reaches it.
type Diverter interface {
	// Divert has acknowledgements that nobody waits for handed to by while the store cannot be reached. It takes a batch over, or
	// reports false; it does not wait. What cannot be brought on its way comes back by SettleLater.
	Divert(by func(batch []*Settle) bool)
}

// Reader is what sessions deliver from.
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

// Copies is what a Store can do besides whose notifications have very many copies.
type Copies interface {
	// Copies finds copies of a notification by its id, so many at most, or fails with ErrNotFound. It reads no more than these.
	Copies(ctx context.Context, app, id string, limit int) ([]Record, error)
}

// Upkeep is what time brings about. Each call does a bounded slice.
type Upkeep interface {
	// Due makes scheduled copies whose time has come deliverable, Expire ends overdue ones. Each says when to come again
	// (zero: nothing waits).
	Due(ctx context.Context, now time.Time) (next time.Time, err error)
	Expire(ctx context.Context, now time.Time) (next time.Time, err error)
	// Prune deletes what settled before retainedSince.
	Prune(ctx context.Context, retainedSince time.Time) (more bool, err error)
	// LookAgain is how long Due and Expire may be left alone when this process knows of nothing that comes due: an hour
	// where no other process writes, a second where one may.
	LookAgain() time.Duration
}

// Admin is what people ask for.
type Admin interface {
	// History lists a recipient's copies, newest first; status 0 is any; cursor is a position (0: from the newest).
	History(ctx context.Context, app, recipient string, status notification.Status, limit int, cursor int64) (items []Record, next int64, err error)
	Recipients(ctx context.Context, app string, limit int, cursor string) (items []RecipientInfo, next string, err error)
	Recipient(ctx context.Context, app, recipient string) (RecipientInfo, error)
	// Erase forgets a recipient, everything it ever got, and its counter.
	Erase(ctx context.Context, app, recipient string) error
	Stats() Stats
	// Ready says why nothing could be stored now, or nil.
	Ready(ctx context.Context) error
}
