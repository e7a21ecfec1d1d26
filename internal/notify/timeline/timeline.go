// Package timeline describes the events of a recipient's copy of a notification on each channel, and explains in a sentence why it has not
// arrived, or how it has.
package timeline

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"godwit.dev/godwit/internal/campaigns/preference"
	"godwit.dev/godwit/internal/notify/escalation"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/notify/recipient"
	"godwit.dev/godwit/internal/sending/dispatch"
	"godwit.dev/godwit/internal/sending/push"
)

// Mailbox has the copies.
type Mailbox interface {
	Lookup(ctx context.Context, app, id, to string) ([]mailbox.Record, error)
	History(ctx context.Context, app, recipient string, status notification.Status, limit int, cursor int64) (items []mailbox.Record, next int64, err error)
}

// Steps provides the state of escalations beyond live.
type Steps interface {
	// StepsOf returns the steps of an open copy and which one is next.
	StepsOf(ctx context.Context, ref mailbox.Ref) (steps []notification.Step, next int, err error)
	// SendsOf lists the sends for a copy, in the order of steps.
	SendsOf(ctx context.Context, app, note, recipient string) ([]escalation.Send, error)
	// Foresee returns how the recipient's preferences will decide about a step that begins at a time.
	Foresee(ctx context.Context, d *mailbox.StepDue, at time.Time) (preference.Verdict, error)
}

// Recipients finds where recipients are connected.
type Recipients interface {
	Get(ctx context.Context, app, name string) (*recipient.View, error)
}

// Config holds what a Service needs.
type Config struct {
	Mailbox    Mailbox
	Steps      Steps // nil: there are no channels beyond live
	Recipients Recipients
	Now        func() time.Time
	Watchers   *Watchers // nil: followers only poll
	Started    time.Time // when this server started, if it records attempts; zero: it records none
}

// Service builds the timelines of copies of all apps.
type Service struct{ Config }

// New makes a Service.
func New(cfg Config) *Service {
	if cfg.Watchers == nil {
		cfg.Watchers = NewWatchers(nil)
	}
	return &Service{cfg}
}

// Step is a copy's state on a channel beyond live.
type Step struct {
	Number   int
	Channel  push.Channel
	Status   string
	Endpoint string // the endpoint's id; empty: there is none
	To       string // the target of a webhook
	At       time.Time
	Detail   string
	First    time.Time // of the first attempt; zero: none yet
	Attempts int
}

// Entry is an event of a copy, past or expected.
type Entry struct {
	At      time.Time
	Channel push.Channel // empty: the event concerns the copy as a whole
	Event   string
	Text    Text
	Planned bool // it has not happened yet
}

// Timeline is all that is known about a copy.
type Timeline struct {
	Record  mailbox.Record
	Steps   []Step
	Entries []Entry // in the order of time
	Why     Text    // a sentence
}

// Of tells of one copy.
func (s *Service) Of(ctx context.Context, app, id, to string) (*Timeline, error) {
	records, err := s.Mailbox.Lookup(ctx, app, id, to)
	if err != nil {
		return nil, err
	}
	if len(records) == 0 {
		return nil, mailbox.ErrNotFound
	}
	t := &Timeline{Record: records[0]}
	if t.Steps, err = s.StepsOf(ctx, app, &t.Record); err != nil {
		return nil, err
	}
	who, err := s.Recipients.Get(ctx, app, to)
	if errors.Is(err, mailbox.ErrNotFound) {
		who, err = &recipient.View{}, nil
	}
	if err != nil {
		return nil, err
	}
	now := s.Now()
	t.Entries = s.entries(&t.Record, t.Steps, now)
	t.Why = why(&t.Record, t.Steps, who, now)
	return t, nil
}

// StepsOf lists the sends of a copy's steps, and the waiting steps.
func (s *Service) StepsOf(ctx context.Context, app string, r *mailbox.Record) ([]Step, error) {
	if s.Steps == nil {
		return nil, nil
	}
	sends, err := s.Steps.SendsOf(ctx, app, r.ID, r.To)
	if err != nil {
		return nil, err
	}
	var list []Step
	for i := range sends {
		if sends[i].Pos == r.Pos { // an earlier copy may have had this id
			list = append(list, sent(&sends[i]))
		}
	}
	steps, next, err := s.Steps.StepsOf(ctx, mailbox.Ref{App: app, Recipient: r.To, Pos: r.Pos})
	if err != nil {
		return nil, err
	}
	for i := next; i < len(steps); i++ {
		step, err := s.waiting(ctx, app, r, steps, i)
		if err != nil {
			return nil, err
		}
		list = append(list, step)
	}
	return list, nil
}

const quiet = "the recipient's quiet hours last until then"

// waiting predicts when a step will begin: a step during quiet hours is postponed, and the steps after it keep their distance.
func (s *Service) waiting(ctx context.Context, app string, r *mailbox.Record, steps []notification.Step, i int) (Step, error) {
	at := r.Due().Add(steps[i].After)
	step := Step{Number: i, Channel: push.Channel(steps[i].Channel), Status: "waiting", To: steps[i].To, At: at}
	d := &mailbox.StepDue{
		App: app, Recipient: r.To, ID: r.ID, Pos: r.Pos, Step: i, Channel: steps[i].Channel, StepOptions: steps[i].StepOptions, Due: at, ExpiresAt: r.ExpiresAt,
	}
	v, err := s.Steps.Foresee(ctx, d, at)
	if err != nil {
		return step, err
	}
	before := v
	if v.Until.IsZero() { // the step may have been postponed already
		if before, err = s.Steps.Foresee(ctx, d, at.Add(-time.Millisecond)); err != nil {
			return step, err
		}
	}
	switch {
	case v.Skip != "":
		step.Status, step.Detail = "will_skip", v.Skip
	case !v.Until.IsZero():
		notification.PutOff(steps, i, v.Until.Sub(r.Due()))
		step.At, step.Detail = v.Until, quiet
	case before.Until.Equal(at):
		step.Detail = quiet
	}
	return step, nil
}

func sent(s *escalation.Send) Step {
	step := Step{
		Number: s.Step, Channel: s.Channel, Status: status(s), To: s.Options.To, At: s.At, Detail: s.Detail, First: s.First, Attempts: s.Attempts,
	}
	if s.Endpoint != 0 { // a target has no public id
		step.Endpoint = s.EndpointID.String()
	}
	return step
}

// status names the state of a send.
func status(s *escalation.Send) string {
	switch {
	case s.Nobody():
		return "skipped"
	case s.Outcome == dispatch.TakenBack && s.Channel == push.APNs:
		return "withdraw_sent" // iOS may hold it back
	case s.Outcome == dispatch.TakenBack:
		return "withdrawn"
	case s.Outcome == dispatch.Expired:
		return "failed"
	case s.Clicked:
		return "clicked"
	case s.Shown, s.Dismissed: // only a device that received the message can report this, whatever the outcome
		return "shown"
	case s.Held:
		return "held"
	case s.Outcome == dispatch.Pending:
		return "sending" // the send is due now or later
	}
	return s.Outcome.String()
}

// entries orders the events of a copy by time.
func (s *Service) entries(r *mailbox.Record, steps []Step, now time.Time) []Entry {
	list := []Entry{{At: r.CreatedAt, Event: "published", Text: published(r)}}
	if r.SendAt.After(r.CreatedAt) {
		list = append(list, Entry{At: r.SendAt, Event: "due", Text: phrase("due, as its send_at says"), Planned: r.SendAt.After(now)})
	}
	if r.Status == notification.Gathered {
		list = append(list, Entry{At: r.Digest.Due, Event: "digest", Text: phrase("leaves with digest %s, or before if that is full", r.Digest.ID), Planned: r.Digest.Due.After(now)})
	}
	switch {
	case len(r.Tried) > 0:
		list = append(list, tries(r)...)
	case !r.DeliveredAt.IsZero():
		list = append(list, Entry{At: r.DeliveredAt, Channel: push.Live, Event: "delivered", Text: written(r)})
	}
	if open := r.SettledAt.IsZero() || r.SettledAt.After(s.Started); open && s.Started.After(r.Due()) {
		list = append(list, Entry{At: s.Started, Channel: push.Live, Event: "restart", Text: restarted})
	}
	for i := range steps {
		list = append(list, stepEntry(&steps[i]))
	}
	switch {
	case !r.SettledAt.IsZero() && (r.Status != notification.Delivered || !r.SettledAt.Equal(r.DeliveredAt)):
		list = append(list, Entry{At: r.SettledAt, Event: r.Status.String(), Text: ended(r)})
	case r.SettledAt.IsZero() && !r.ExpiresAt.IsZero():
		list = append(list, Entry{At: r.ExpiresAt, Event: "expires", Text: phrase("expires if nobody has acknowledged it by then"), Planned: true})
	}
	slices.SortStableFunc(list, func(a, b Entry) int { return cmp.Compare(a.At.UnixMilli(), b.At.UnixMilli()) })
	return list
}

// planned reports whether a step has not begun.
func planned(s *Step) bool { return s.Status == "waiting" || s.Status == "will_skip" }

func stepEntry(s *Step) Entry {
	return Entry{At: s.At, Channel: s.Channel, Event: s.Status, Planned: planned(s), Text: stepText(s)}
}
