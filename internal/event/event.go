// Package event names what happens to notifications and recipients, for feeds and hooks.
package event

import (
	"context"
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

	// What became of what a step of an escalation sent; each carries its channel.
	StepAccepted  Type = "step_accepted"
	StepFailed    Type = "step_failed"
	StepUnknown   Type = "step_unknown"
	StepWithdrawn Type = "step_withdrawn"
	// Exhausted says that all steps have ended and nobody has acknowledged: nothing else is tried.
	Exhausted Type = "exhausted"
)

// Types lists all, in the order of the public contract.
var Types = []Type{
	Stored, Delivered, Acked, Replied, Expired, Replaced, Recalled, Failed, Online, Offline,
	StepAccepted, StepFailed, StepUnknown, StepWithdrawn, Exhausted,
}

// Event is one thing that happened in an app.
type Event struct {
	ID      uint64 // grows within a server's log; given by the log
	App     string
	Type    Type
	At      time.Time
	Note    string // the notification's id; empty for online and offline
	To      string // the recipient
	Channel string // over which it happened, of what a step caused; else empty
}

// Log keeps events for a while and tells followers of new ones.
type Log interface {
	// Emit queues events; it never blocks and may drop the oldest unwritten ones under overload, which it counts.
	Emit(evs []Event)
	// Read returns events of one app after id since, oldest first, at most limit. With wait it blocks until there
	// is one or ctx ends. Only committed events are returned; last is the newest id looked at.
	Read(ctx context.Context, app string, since uint64, limit int, wait bool) (evs []Event, last uint64, err error)
	// Last is the newest id given out.
	Last() uint64
}
