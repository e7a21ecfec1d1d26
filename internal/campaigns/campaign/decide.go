package campaign

import (
	"context"
	"fmt"
	"time"

	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/dispatch"
)

// decideLook is the interval at which a campaign that tries variants looks whether it may decide, or whether a person has.
const decideLook = time.Second

// decide waits until both variants have been sent and their time is over, stores which is the better one, and releases the rest of the
// audience. Each of these steps is stored before the next, so that another process continues where this one ended.
func (r *run) decide(ctx context.Context) error {
	for !r.final.Load() && ctx.Err() == nil {
		wait, err := r.decideStep(ctx)
		if err != nil {
			if dispatch.IsStop(ctx, err) {
				return nil
			}
			return fmt.Errorf("decide between the variants: %w", err)
		}
		if wait <= 0 {
			continue
		}
		t := time.NewTimer(min(wait, decideLook))
		select {
		case <-ctx.Done():
		case <-r.landed:
		case <-t.C:
		}
		t.Stop()
	}
	return nil
}

// decideStep takes the next step that is possible, and returns how long to wait for the one after it.
func (r *run) decideStep(ctx context.Context) (wait time.Duration, err error) {
	c, err := r.s.store.Get(ctx, r.c.App, r.c.ID)
	if err != nil {
		return 0, err
	}
	now := r.s.cfg.Now().Truncate(time.Millisecond)
	switch spec := &c.Spec; {
	case !r.enumerated.Load():
		return decideLook, nil
	case spec.Decision != nil:
		return 0, r.release(ctx, spec.Decision)
	case spec.TriedAt.IsZero():
		return r.tried(ctx, now)
	case now.Before(spec.TriedAt.Add(time.Duration(spec.DecideAfter))):
		return spec.TriedAt.Add(time.Duration(spec.DecideAfter)).Sub(now), nil
	}
	f, err := r.s.store.Figures(ctx, r.c.Num)
	if err != nil {
		return 0, err
	}
	d := choose(c.Spec.Better(), f)
	d.At = now
	return 0, r.note(ctx, func(s *Spec) {
		if s.Decision == nil {
			s.Decision = &d
		}
	})
}

// tried notes the time at which both variants have been sent. If nobody is in the rest, nothing is to be decided. Where a refused credential holds them back, they are not: the run ends, and
// the campaign pauses.
func (r *run) tried(ctx context.Context, now time.Time) (wait time.Duration, err error) {
	untried, err := r.s.store.Untried(ctx, r.c.Num)
	if err != nil || untried {
		return decideLook, err
	}
	f, err := r.s.store.Figures(ctx, r.c.Num)
	if err != nil {
		return 0, err
	}
	a, b := &f.Groups[GroupA], &f.Groups[GroupB]
	held := r.job.Refusal() != "" && float64(a.Open()+b.Open()) > fewHeld*float64(a.Total()+b.Total())
	if held || f.Groups[Rest].Open() == 0 { // or nobody waits for a decision
		r.finalise()
		return 0, nil
	}
	return 0, r.note(ctx, func(s *Spec) {
		if s.TriedAt.IsZero() {
			s.TriedAt = now
		}
	})
}

// note changes the stored definition while the campaign runs.
func (r *run) note(ctx context.Context, change func(*Spec)) error {
	_, err := r.s.store.Change(ctx, r.c.App, r.c.ID, func(c *Campaign) error {
		if c.State == Running {
			change(&c.Spec)
		}
		return nil
	})
	return err
}

// release makes the rest of the audience due, from the decision's time on.
func (r *run) release(ctx context.Context, d *Decision) error {
	r.decision.Store(d)
	for {
		n, err := r.s.store.Release(ctx, r.c.Num, d.At, slice)
		if err != nil {
			return err
		}
		if n == 0 {
			break
		}
		r.job.Kick()
	}
	r.s.log.InfoContext(ctx, "campaign has decided between its variants", "campaign", r.c.ID, "app", r.c.App, "variant", d.Variant, "reason", d.Reason)
	r.finalise()
	return nil
}

// finalise tells the job that no further delivery becomes due by a decision.
func (r *run) finalise() {
	r.final.Store(true)
	r.job.Kick()
}

// spec returns the definition with the message of a delivery's group.
func (r *run) spec(t *Target) *Spec {
	g := Group(t.Group)
	if g == Rest {
		if d := r.decision.Load(); d != nil {
			g, _ = groupNamed(d.Variant)
		}
	}
	return r.c.Spec.Of(g)
}

// choose compares the variants by the share of their accepted messages that had the reaction.
func choose(m Metric, f *Figures) Decision {
	a, b := &f.Groups[GroupA], &f.Groups[GroupB]
	what, na, nb := "clicks", a.Clicked, b.Clicked
	if m == Shows {
		what, na, nb = "views", a.Shown, b.Shown
	}
	ofA, ofB := a.Arrived(), b.Arrived()
	// Shares are compared as products, which have no rounding. A variant that nobody has got has no share.
	left, right := na*max(ofB, 1), nb*max(ofA, 1)
	says := fmt.Sprintf("%d %s of %d for A, %d of %d for B", na, what, ofA, nb, ofB)
	switch {
	case na+nb == 0:
		return Decision{Variant: GroupA.Name(), Reason: "no " + what + " were counted, so the rest gets the first variant"}
	case right > left:
		return Decision{Variant: GroupB.Name(), Reason: "B has the larger share: " + says}
	case left > right:
		return Decision{Variant: GroupA.Name(), Reason: "A has the larger share: " + says}
	}
	return Decision{Variant: GroupA.Name(), Reason: "both have the same share, so the rest gets the first variant: " + says}
}

// Decide ends the comparison of a campaign's variants: the rest of the audience gets this one.
func (s *Service) Decide(ctx context.Context, app, id, variant string) (*View, error) {
	if _, ok := groupNamed(variant); !ok {
		return nil, notification.BadField("variant", "%.40q is none of A, B", variant)
	}
	now := s.cfg.Now().Truncate(time.Millisecond)
	return s.change(ctx, app, id, func(c *Campaign) error {
		const deed = "decide between variants"
		switch {
		case !c.Spec.Decides():
			return &StateError{Action: deed, State: c.State, Hint: "no part of its audience waits for that"}
		case c.Spec.Decision != nil && c.Spec.Decision.Variant == variant:
			return nil
		case c.Spec.Decision != nil:
			return &StateError{Action: deed, State: c.State, Hint: "it is decided: the rest gets " + c.Spec.Decision.Variant}
		case c.State != Running && c.State != Paused:
			return &StateError{Action: deed, State: c.State}
		}
		c.Spec.Decision = &Decision{At: now, Variant: variant, Reason: "somebody chose it"}
		return nil
	})
}
