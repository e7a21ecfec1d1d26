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
	// Exhausted says that all steps have ended without an acknowledgement: nothing else is tried.
	Exhausted Type = "exhausted"
)

// Types lists all, in the order of the public contract.
var Types = []Type{
	Stored, Delivered, Acked, Replied, Expired, Replaced, Recalled, Failed, Online, Offline,
	StepAccepted, StepFailed, StepUnknown, StepWithdrawn, Exhausted,
}

// FromMailbox reports whether an event of this type can be made again from the mailbox's record of its notification.
func (t Type) FromMailbox() bool {
	switch t {
	case Stored, Delivered, Acked, Replied, Expired, Replaced, Recalled, Failed:
		return true
	}
	return false
}

// Repeatable reports whether the event can be made anew from the mailbox, and has not been yet.
func (e *Event) Repeatable() bool { return e.Type.FromMailbox() && !e.Reconciled }

// Event is one thing that happened in an app.
type Event struct {
	ID      uint64 // grows within a server's log; given by the log
	App     string
	Type    Type
	At      time.Time
	Note    string // the notification's id; empty for online and offline
	To      string // the recipient
	Channel string // channel of the escalation step that caused it; else empty
	Step    int    // number of the escalation step that caused it, from 1; else 0
	Detail  string // the reason, in the provider's or receiver's words; at most MaxDetail bytes
	// Reconciled says that the event was lost or dropped, and was made again from the mailbox's records.
	Reconciled bool

	// Category is that of the notification. The log keeps it of stored ones alone; sinks fill it in for later ones, if they remember it.
	Category string

	// Took is how long after the notification was stored it happened, where TookKnown. Sinks fill it in; no log keeps it.
	Took      time.Duration
	TookKnown bool
}

// MaxDetail is the most bytes of a reason that an event keeps: providers' reasons are one line.
const MaxDetail = 200

// Log keeps events for a while and notifies followers of new ones.
type Log interface {
	// Emit queues events; it never blocks and may drop the oldest unwritten ones under overload, which it counts.
	Emit(evs []Event)
	// Read returns events of one app after id since, oldest first, at most limit. With wait it blocks until there
	// is one or ctx ends. Only committed events are returned; last is the newest id looked at.
	Read(ctx context.Context, app string, since uint64, limit int, wait bool) (evs []Event, last uint64, err error)
	// Last is the newest id given out.
	Last() uint64
}

// IDShift is what makes an id of a time: an id is a time in milliseconds and, below, a counter that may well run over into it.
const IDShift = 20

// IDAt returns an id smaller than those of all events emitted from time t on.
func IDAt(t time.Time) uint64 { return uint64(max(t.UnixMilli(), 0)) << IDShift } //nolint:gosec // not below 0

// TimeOf is when an event was emitted, by its id.
func TimeOf(id uint64) time.Time { return time.UnixMilli(int64(id >> IDShift)) } //nolint:gosec // a time

// Gap says that a log may lack events that one process has emitted.
type Gap struct {
	Of    string    // names the process
	Ended bool      // it is no more
	Lost  int64     // how often it is known to have lost events
	From  time.Time // all events that it emitted before this time are in the log
	Since time.Time // what it emitted after From happened after this: not long before, unless something expired while no server ran
}

var seed = maphash.MakeSeed()

// Key tells events of an app apart while this process runs, but for an id that was used again a day after its copy had ended.
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

// Forgetful is a log that deletes events that are too old or too many.
type Forgetful interface {
	Log
	// Gone is the newest event that was deleted; 0: none was. All older ones are deleted too.
	Gone(ctx context.Context) (uint64, error)
}

// Repairable is a log that knows which events it may lack: those emitted in the last moments before a crash, and dropped
// ones.
type Repairable interface {
	Log
	// Gaps lists what the log may lack. alive names the running processes that share the log; it is called after the log was read, and is
	// nil if the log belongs to this process alone.
	Gaps(ctx context.Context, alive func(ctx context.Context) ([]string, error)) ([]Gap, error)
	// Repaired notes that the events lost before Gaps was called are in the log again.
	Repaired(ctx context.Context, gaps []Gap) error
	// CutOff returns the time that lies age ago. From now on the log refuses mailbox events that happened before that time, unless they
	// are reconciled, and notes a gap for each refusal: a server that was suspended, or had no database, may emit an event late that was
	// already made again.
	CutOff(ctx context.Context, age time.Duration) (time.Time, error)
	// Flush returns when all that was emitted before has been stored or dropped.
	Flush(ctx context.Context) error
}
