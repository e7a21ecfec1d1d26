// Package event names what happens to notifications and recipients, for feeds and hooks.
package event

import (
	"context"
	"hash/maphash"
	"time"
)

// Type is the public name of an event.
type Type string

// Types.
const (
	Stored    Type = "stored"
	Delivered Type = "delivered"
	Acked     Type = "acked"
	Replied   Type = "replied"
	Expired   Type = "expired"
	Replaced  Type = "replaced"
	Recalled  Type = "recalled"
	Failed    Type = "failed"
	Online    Type = "online"
	Offline   Type = "offline"

	// Outcomes of what a step of an escalation sent; each event carries its channel.
	StepAccepted  Type = "step_accepted"
	StepFailed    Type = "step_failed"
	StepUnknown   Type = "step_unknown"
	StepWithdrawn Type = "step_withdrawn"
	// Exhausted says that all steps have ended without an acknowledgement: the server tries no further step.
	Exhausted Type = "exhausted"
	// Pressed says that somebody pressed a button below a message; its name is the detail.
	Pressed Type = "pressed"

	// Gathered says that a notification waits in a digest, and Digested that it went into one, whose id is the detail.
	Gathered Type = "gathered"
	Digested Type = "digested"
	// Events of the inbox: a person has done this with a notification.
	Seen     Type = "seen"
	Read     Type = "read"
	Archived Type = "archived"
)

// Types lists all event types, in the order of the public contract.
var Types = []Type{
	Stored, Delivered, Acked, Replied, Expired, Replaced, Recalled, Failed, Online, Offline,
	StepAccepted, StepFailed, StepUnknown, StepWithdrawn, Exhausted, Pressed, Gathered, Digested, Seen, Read, Archived,
}

// FromMailbox reports whether an event of this type can be recreated from the mailbox's record of its notification.
func (t Type) FromMailbox() bool {
	switch t {
	case Stored, Delivered, Acked, Replied, Expired, Replaced, Recalled, Failed:
		return true
	}
	return false
}

// Repeatable reports whether the event can be recreated from the mailbox, and was not recreated already.
func (e *Event) Repeatable() bool { return e.Type.FromMailbox() && !e.Reconciled }

// Event is one thing that happened in an app.
type Event struct {
	ID      uint64 // increases within a server's log, which assigns it
	App     string
	Type    Type
	At      time.Time
	Note    string // the notification's id; empty for online and offline
	To      string // the recipient
	Channel string // channel of the escalation step that caused the event; else empty
	Step    int    // number of the escalation step that caused the event, from 1; else 0
	Detail  string // the reason, in the provider's or receiver's words, at most MaxDetail bytes
	// Reconciled says that the event was lost or dropped and then recreated from the mailbox's records.
	Reconciled bool

	// Category is the category of the notification. The log keeps it for the types Stored, Seen, Read and Archived; sinks fill it in for other
	// events, if they remember it.
	Category string

	// Took is the time from the storing of the notification to this event; it is valid if TookKnown. Sinks fill it in; no log keeps it.
	Took      time.Duration
	TookKnown bool
}

// MaxDetail is the most bytes that an event keeps of a reason: providers' reasons are one line.
const MaxDetail = 200

// Log keeps events for a while and notifies followers of new ones.
type Log interface {
	// Emit queues events. It never blocks; under overload it may drop the oldest unwritten events, and counts them.
	Emit(evs []Event)
	// Read returns at most limit events of one app after the id since, oldest first. With wait it blocks until there is an event or ctx
	// ends. Only committed events are returned; last is the newest id that it has examined.
	Read(ctx context.Context, app string, since uint64, limit int, wait bool) (evs []Event, last uint64, err error)
	// Last is the newest id that the log has assigned.
	Last() uint64
}

// IDShift is how many bits the time is shifted in an id: an id is a time in milliseconds, with a counter in the lower bits that may run
// over into the time.
const IDShift = 20

// IDAt returns an id smaller than the ids of all events emitted from time t on.
func IDAt(t time.Time) uint64 { return uint64(max(t.UnixMilli(), 0)) << IDShift } // not below 0

// TimeOf returns the time at which the event with this id was emitted.
func TimeOf(id uint64) time.Time { return time.UnixMilli(int64(id >> IDShift)) } // a time

// Gap describes the events of one process that a log may lack.
type Gap struct {
	Of    string    // names the process
	Ended bool      // it is no more
	Lost  int64     // how often the log is known to have lost events of the process
	From  time.Time // the log holds all events that the process emitted before this time
	Since time.Time // earliest time at which the events emitted after From happened: shortly before From, unless something expired while no server ran
}

var seed = maphash.MakeSeed()

// Key distinguishes the events of an app while this process runs. It is the same only for a notification id that is used again a day after
// its copy had ended.
func (e *Event) Key() uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	_, _ = h.WriteString(string(e.Type))
	_ = h.WriteByte(0)
	_, _ = h.WriteString(e.Note)
	_ = h.WriteByte(0)
	_, _ = h.WriteString(e.To)
	return h.Sum64()
}

// Forgetful is a log that deletes old events, and the oldest when there are too many.
type Forgetful interface {
	Log
	// Gone is the id of the newest deleted event; all older ones are deleted too. 0: none was deleted.
	Gone(ctx context.Context) (uint64, error)
}

// Repairable is a log that can report which events it may lack: those emitted in the last moments before a crash, and dropped ones.
type Repairable interface {
	Log
	// Gaps lists the events that the log may lack. alive returns the names of the running processes that share the log; Gaps calls it after
	// it has read the log. It is nil if the log belongs to this process alone.
	Gaps(ctx context.Context, alive func(ctx context.Context) ([]string, error)) ([]Gap, error)
	// Repaired records that the log again holds the events lost before Gaps was called.
	Repaired(ctx context.Context, gaps []Gap) error
	// CutOff returns the time that lies age ago. From now on the log refuses mailbox events that happened before that time, unless they are
	// reconciled, and records a gap for each refusal. Without this, a server that was suspended, or had no database, could late emit an
	// event that has been recreated meanwhile.
	CutOff(ctx context.Context, age time.Duration) (time.Time, error)
	// Flush returns when all events emitted before the call have been stored or dropped.
	Flush(ctx context.Context) error
}
