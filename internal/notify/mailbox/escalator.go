package mailbox

import (
	"context"
	"time"

	"godwit.dev/godwit/internal/notify/notification"
)

// StepDue is a due step beyond live, of a copy that is not acknowledged yet.
type StepDue struct {
	App, Recipient, ID string
	Pos                int64
	Step               int // from 0, in the notification's Steps
	Channel            string
	notification.StepOptions
	Due       time.Time // when it should have begun
	ExpiresAt time.Time // of the copy
}

// StepDone reports that a step was handed over: its sends are stored elsewhere.
type StepDone struct {
	Ref
	Step    int
	Skipped bool      // the step had no endpoints: the next one is due at once
	Until   time.Time // set: the step is postponed, and due again at this time
}

// Escalator is implemented by stores that keep escalations: for each open copy with steps beyond live, the next step and its time. A commit
// that settles a copy also removes its next step.
type Escalator interface {
	// StepsDue reads at most limit due steps of the apps (nil: of all apps) whose copies are open, longest due first. It returns a step
	// again until HandedOver gets it. next is the time of the next call; zero: no step waits. Only one goroutine may call it at a time.
	StepsDue(ctx context.Context, apps []string, now time.Time, limit int) (due []StepDue, next time.Time, err error)
	// HandedOver schedules the steps that follow those in done, and returns once that is on disk. It ignores a step that is not the next
	// one of its copy: the step was reported before, or the copy is settled. After a postponed step, the next one keeps at least the
	// distance of the plan.
	HandedOver(ctx context.Context, done []StepDone, now time.Time) error
	// Hurry makes the first steps of copies due now: StepsDue finds them after it has returned. The store need not keep this: after a
	// restart, the steps may be due at their planned times.
	Hurry(refs []Ref)
	// StepsOf returns the steps of an open copy and the index of the next one, which is len(steps) if all were handed over; none if the
	// copy has no steps or is settled. If the next one is due later than planned, its time and those of the later steps include the delay:
	// see notification.PutOff.
	StepsOf(ctx context.Context, ref Ref) (steps []notification.Step, next int, err error)
}
