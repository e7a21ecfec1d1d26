package mailbox

import (
	"context"
	"time"

	"godwit.dev/godwit/internal/notify/notification"
)

// StepDue is a due step beyond live: its copy is not acknowledged yet.
type StepDue struct {
	App, Recipient, ID string
	Pos                int64
	Step               int // from 0, of the notification's Steps
	Channel            string
	notification.StepOptions
	Due       time.Time // when it should have begun
	ExpiresAt time.Time // of the copy
}

// StepDone says that a step was handed over: its sends are on disk elsewhere.
type StepDone struct {
	Ref
	Step    int
	Skipped bool      // it had no endpoints: the next one is due at once
	Until   time.Time // set: nothing is handed over, the step is postponed and due again at this time
}

// Escalator is the ability of a store to keep escalations: for each open copy with steps beyond live, which step is next and when. A
// settled copy has no next step from the commit on that settles it.
type Escalator interface {
	// StepsDue reads up to limit due steps of apps (nil: of all) whose copies are open, longest due first. It returns a step again until
	// HandedOver gets it. next is the time of the next call; zero: no step waits. One caller at a time.
	StepsDue(ctx context.Context, apps []string, now time.Time, limit int) (due []StepDue, next time.Time, err error)
	// HandedOver schedules the steps after those, and returns once that is on disk. A step that is not the next of its copy is
	// ignored: it was reported before, or the copy is settled. After a postponed step, the next one keeps at least the distance
	// of the plan.
	HandedOver(ctx context.Context, done []StepDone, now time.Time) error
	// Hurry makes the first steps of copies due now: StepsDue finds them once it has returned. It need not be kept: after a restart they may come
	// at their time.
	Hurry(refs []Ref)
	// StepsOf returns the steps of an open copy and which one is next, len(steps) where all were handed over; none if it has
	// none or is settled. Where the next one is due later than planned, it and those after it say so: see notification.PutOff.
	StepsOf(ctx context.Context, ref Ref) (steps []notification.Step, next int, err error)
}
