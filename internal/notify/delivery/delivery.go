// Package delivery handles a publish from beginning to end: it checks, stores and routes notifications. Its one promise is that Publish
// returns only after everything it accepted is on disk and has been passed to the sessions that are online.
package delivery

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"

	"godwit.dev/godwit/internal/engine/latency"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/push"
)

// Store is the store of mailboxes. Its writes return once its observer has routed, in commit order, the content that is on disk.
type Store interface {
	Append(ctx context.Context, batch []*mailbox.Append) error
}

// Service publishes.
type Service struct {
	store Store
	now   func() time.Time
	reach Reach // nil: live is the only channel
	fill  Fill  // nil: there are no templates
	kept  Kept  // nil: categories say nothing of inboxes
	trace Tracer
	apart Gatherer // nil: no notification waits for a digest
	took  latency.Histogram
	under atomic.Int64 // calls of Publish
}

// Reach returns why an app cannot use a step beyond live: the wrong field, and a reason for its publisher. An empty field means that the
// app can use it. An error means that this is unknown now.
type Reach func(ctx context.Context, app string, step notification.Step) (field, why string, err error)

// Tracer follows publishes.
type Tracer interface {
	// Publishing receives the batch that is about to be stored, and the trace context of each notification. done receives the store's
	// error.
	Publishing(batch []*mailbox.Append, of []notification.Trace) (done func(error))
}

// Fill adds the content to a draft that names a template.
type Fill func(ctx context.Context, app string, d *notification.Draft) error

// Kept returns whether inboxes keep what an app publishes in a category, and how long; 0: the default.
type Kept func(app, category string) (keep time.Duration, is bool)

// New makes a Service; now is the store's clock.
func New(st Store, now func() time.Time) *Service { return &Service{store: st, now: now} }

// EscalateOver enables escalation by the steps that reach accepts. It must be called before the first publish; without it, live is the only
// channel.
func (s *Service) EscalateOver(reach Reach) { s.reach = reach }

// TraceWith lets t trace publishes. It must be called before the first one; without it, no publish is traced.
func (s *Service) TraceWith(t Tracer) { s.trace = t }

// FillWith enables drafts that name templates. It must be called before the first publish.
func (s *Service) FillWith(fill Fill) { s.fill = fill }

// KeepBy lets categories decide what inboxes keep. It must be called before the first publish.
func (s *Service) KeepBy(kept Kept) { s.kept = kept }

// Latency counts how long calls of Publish have taken to store and route, since the start.
func (s *Service) Latency() []latency.Bucket { return s.took.Buckets() }

// Busy reports whether a publish is under way.
func (s *Service) Busy() bool { return s.under.Load() > 0 }

// Result is the outcome of one publish: either Err, or one Copy per recipient in the order of the draft's To.
type Result struct {
	ID     string
	Err    error // the publish as a whole was refused: *notification.FieldError, a store's error, ...
	Copies []Copy
}

// Copy is one recipient's part of a publish.
type Copy struct {
	To        string
	Status    notification.Status
	Duplicate bool
	ExpiresAt time.Time
	Err       error // this copy was refused: *notification.FieldError, mailbox.ErrConflict, mailbox.ErrFull
}

// Publish stores drafts for an app and routes them. It returns once everything is on disk, with one result per draft.
func (s *Service) Publish(ctx context.Context, app string, drafts []*notification.Draft) []Result {
	s.under.Add(1)
	defer s.under.Add(-1)
	now := s.now()
	results := make([]Result, len(drafts))
	batch := make([]*mailbox.Append, 0, len(drafts))
	slots := make([]int, 0, len(drafts)) // batch[i] answers results[slots[i]]
	for i, d := range drafts {
		fresh := d.ID == "" || d.Fresh
		n, err := s.checked(ctx, app, d, now)
		results[i].ID = d.ID
		if err != nil && (fresh || !notification.IsLapsed(err)) {
			results[i].Err = err
			continue
		}
		results[i].Copies = copies(d.To)
		if a := accepted(n, results[i].Copies); a != nil {
			a.Fresh, a.Refused = fresh, err
			batch, slots = append(batch, a), append(slots, i)
		} else if err != nil {
			results[i].Err, results[i].Copies = err, nil
		}
	}
	if len(batch) == 0 {
		return results
	}
	err := s.keep(ctx, app, batch, drafts, slots)
	s.took.Observe(s.now().Sub(now))
	for i, a := range batch {
		r := &results[slots[i]]
		if err != nil {
			r.Err, r.Copies = err, nil
			continue
		}
		if a.Refused != nil && !anyKnown(a) {
			r.Err, r.Copies = a.Refused, nil
			continue
		}
		fill(r.Copies, a.Results)
	}
	return results
}

// anyKnown reports whether a refused publish repeats an earlier one for any of its recipients.
func anyKnown(a *mailbox.Append) bool {
	return slices.ContainsFunc(a.Results, func(r mailbox.AppendResult) bool { return !errors.Is(r.Err, a.Refused) })
}

// checked makes the notification of a draft. If the error is one that may have lapsed since the first publish, it returns the notification
// as well; see Draft.Check.
func (s *Service) checked(ctx context.Context, app string, d *notification.Draft, now time.Time) (*notification.Notification, error) {
	unfilled := s.filled(ctx, app, d)
	if unfilled != nil && !notification.IsLapsed(unfilled) {
		return nil, unfilled
	}
	if d.Inbox == nil && s.kept != nil {
		if keep, is := s.kept(app, d.Content.Category); is {
			yes := true // the address of is would make every publish allocate
			d.Inbox, d.Keep = &yes, cmp.Or(d.Keep, keep)
		}
	}
	n, err := d.Check(app, now, func() string { return newID(now) })
	switch {
	case n == nil:
		return nil, cmp.Or(unfilled, err)
	case unfilled != nil:
		return n, unfilled
	case err == nil && n.Steps != nil:
		err = s.checkSteps(ctx, app, d)
	}
	return n, err
}

// append stores a batch. slots has, for each element of batch, the index of its draft.
func (s *Service) append(ctx context.Context, batch []*mailbox.Append, drafts []*notification.Draft, slots []int) error {
	if s.trace == nil {
		return s.store.Append(ctx, batch)
	}
	of := make([]notification.Trace, len(batch))
	for i := range batch {
		of[i] = drafts[slots[i]].Trace
	}
	done := s.trace.Publishing(batch, of)
	err := s.store.Append(ctx, batch)
	done(err)
	return err
}

// filled adds the content of the template that a draft names.
func (s *Service) filled(ctx context.Context, app string, d *notification.Draft) error {
	switch {
	case d.Template == "" && d.Variables != nil:
		return notification.BadField("variables", "are those of a template: name it in template")
	case d.Template == "" && d.Locale != "":
		return notification.BadField("locale", "chooses the language of a template: name it in template")
	case (d.Template != "" || len(d.Phones) > 0 || starts(d)) && s.fill != nil:
		return s.fill(ctx, app, d)
	case len(d.Phones) > 0:
		return notification.BadField("fcm", "and apns and live_activity need push channels, which are not here")
	case d.Template != "":
		return notification.BadField("template", "there are no templates here")
	}
	return nil
}

// starts reports whether a step starts a Live Activity, for which the draft has to say which.
func starts(d *notification.Draft) bool {
	return slices.ContainsFunc(d.Escalate, func(step notification.Step) bool { return step.Channel == string(push.LiveActivityStart) })
}

// checkSteps refuses channels and targets that are not set up for the app.
func (s *Service) checkSteps(ctx context.Context, app string, d *notification.Draft) error {
	for i, step := range d.Escalate {
		if step.Channel == notification.Live {
			continue
		}
		field, why := "channel", "channel "+notification.Clip(step.Channel)+" is not configured"
		if s.reach != nil {
			var err error
			if field, why, err = s.reach(ctx, app, step); err != nil {
				return fmt.Errorf("escalate to %s: %w", notification.Clip(step.Channel), err)
			}
		}
		if field != "" {
			return notification.LapsedField(fmt.Sprintf("escalate[%d].%s", i, field), "%s", why)
		}
	}
	return nil
}

// copies makes a copy per recipient. Recipients with invalid names are refused here.
func copies(to []string) []Copy {
	cs := make([]Copy, len(to))
	for i, name := range to {
		cs[i] = Copy{To: name, Err: notification.CheckName("to", name)}
	}
	return cs
}

// accepted makes the request to store n for the recipients that were not refused; nil if there are none.
func accepted(n *notification.Notification, cs []Copy) *mailbox.Append {
	a := &mailbox.Append{N: n, To: make([]string, 0, len(cs))}
	for i := range cs {
		if cs[i].Err == nil {
			a.To = append(a.To, cs[i].To)
		}
	}
	if len(a.To) == 0 {
		return nil
	}
	return a
}

// fill copies the store's results to the copies that were not refused, in order.
func fill(cs []Copy, rs []mailbox.AppendResult) {
	for i := range cs {
		if cs[i].Err != nil {
			continue
		}
		r := rs[0]
		rs = rs[1:]
		cs[i].Status, cs[i].Duplicate, cs[i].ExpiresAt, cs[i].Err = r.Status, r.Duplicate, r.ExpiresAt, r.Err
	}
}

// newID makes a ULID, which sorts by time and has 80 random bits.
func newID(now time.Time) string {
	id := ulid.ULID{}
	_ = id.SetTime(ulid.Timestamp(now)) // fails only after the year 10889
	_, _ = rand.Read(id[6:])            // never fails
	return id.String()
}
