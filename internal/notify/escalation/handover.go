package escalation

import (
	"context"
	"errors"
	"fmt"
	"time"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/engine/pause"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/sending/dispatch"
	"godwit.dev/godwit/internal/sending/push"
)

// hurry makes the first step due now for the newly stored copies whose recipients are not connected to any node, and returns these copies.
// If other nodes do not answer, a step keeps its time.
func (s *Service) hurry(ctx context.Context, stored []storedCopy) map[mailbox.Ref]bool {
	away := make(map[mailbox.Address]bool)
	var refs []mailbox.Ref
	hurried := make(map[mailbox.Ref]bool)
	for i := range stored {
		ref := stored[i].Ref
		who := mailbox.Address{App: ref.App, Recipient: ref.Recipient}
		gone, asked := away[who]
		if !asked {
			online, err := s.cfg.Mailbox.Online(ctx, ref.App, ref.Recipient)
			gone = err == nil && len(online) == 0
			away[who] = gone
		}
		if gone {
			refs = append(refs, ref)
			hurried[ref] = true
		}
	}
	if len(refs) > 0 {
		s.cfg.Steps.Hurry(refs)
	}
	return hurried
}

// handOver stores the sends of due steps, and then reports the steps to the mailbox.
func (s *Service) handOver(ctx context.Context) (next time.Time, err error) {
	for {
		apps := s.owned()
		if s.shared() && len(apps) == 0 {
			return time.Time{}, nil
		}
		due, next, err := s.cfg.Steps.StepsDue(ctx, apps, s.cfg.Now(), slice)
		if err != nil || len(due) == 0 {
			return next, err
		}
		now := s.cfg.Now()
		st, err := s.start(ctx, due, now)
		if err != nil {
			return next, err
		}
		if err := s.cfg.Store.Hand(ctx, st.sends, now); err != nil {
			return next, fmt.Errorf("write down what is to be sent: %w", err)
		}
		for p := range st.places {
			s.want(p.App)
			s.send(ctx, p)
		}
		if err := s.cfg.Steps.HandedOver(ctx, st.done, now); err != nil {
			return next, err
		}
		for i := range st.done {
			if st.done[i].Skipped { // the step has ended, and no later event will report that
				s.sent(copyOf{st.done[i].Ref, due[i].ID})
			}
		}
	}
}

// sends returns a step's sends: one to each endpoint of its channel, or one that records that there is none.
func (s *Service) sends(ctx context.Context, d *mailbox.StepDue) (list []Send, err error) {
	send := Send{
		App: d.App, Recipient: d.Recipient, Note: d.ID, Pos: d.Pos, Step: d.Step, Channel: push.Channel(d.Channel), ExpiresAt: d.ExpiresAt,
		Options: d.StepOptions,
	}
	if d.To != "" { // one of the app's own
		send.EndpointID = targetID(d.App, d.To)
		send.ID = ID(d, send.EndpointID)
		return []Send{send}, nil
	}
	endpoints, err := s.cfg.Endpoints.EndpointsOf(ctx, d.App, d.Recipient)
	if err != nil {
		return nil, err
	}
	for i := range endpoints {
		e := &endpoints[i]
		if e.Channel == send.Channel && e.Status == audience.Active {
			one := send
			one.ID, one.Endpoint, one.EndpointID = ID(d, e.ID), e.Number, e.ID
			list = append(list, one)
		}
	}
	if list == nil {
		list = append(list, nobody(d, "the recipient has no active endpoint of this channel"))
	}
	return list, nil
}

// send starts sending the waiting sends of a place, if this server owns the app.
func (s *Service) send(ctx context.Context, p Place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if job := s.jobs[p]; job != nil {
		job.Kick()
		return
	}
	o := s.ownedNow(p.App)
	if o == nil {
		return
	}
	sends := newBacklog(s, p)
	job, err := s.cfg.Dispatch.Job(dispatch.Work{App: p.App, Channels: []push.Channel{p.Channel}, Backlog: sends, Urgent: true, Held: o.held, Log: s.cfg.Log})
	if err != nil {
		s.cfg.Log.ErrorContext(ctx, "steps of escalations cannot be sent", "app", p.App, "channel", string(p.Channel), "error", err)
		return
	}
	s.jobs[p] = job
	o.tasks.Go(func() {
		err := job.Run(o.ctx, o.hard)
		if err != nil && o.ctx.Err() == nil {
			s.failed(o, sends, err)
		}
		s.mu.Lock()
		delete(s.jobs, p)
		s.mu.Unlock()
		// More sends may have been added while the job ended.
		at, err := s.cfg.Store.NextSend(o.ctx, p)
		if o.ctx.Err() == nil && (err != nil || !at.IsZero()) {
			s.send(o.ctx, p)
		}
	})
}

// failed handles a job's error. If the channel cannot send at all, it ends the sends of the place; after any other fault it waits a little.
func (s *Service) failed(o *owned, src *backlog, err error) {
	ctx := o.ctx
	s.cfg.Log.WarnContext(ctx, "steps of escalations cannot be sent", "app", src.place.App, "channel", string(src.place.Channel), "error", err)
	if errors.Is(err, ErrStale) { // or the database has lost this takeover: the server takes over again if it still owns the app
		o.lose()
		return
	}
	var unable *dispatch.ChannelError
	if !errors.As(err, &unable) {
		pause.For(ctx, retryAfterFault)
		return
	}
	now := s.cfg.Now()
	for {
		ds, err := src.Due(ctx, src.place.Channel, now, slice)
		if err != nil {
			pause.For(ctx, retryAfterFault)
			return
		}
		if len(ds) == 0 {
			return
		}
		results := make([]dispatch.Result, len(ds))
		for i := range ds {
			results[i] = result(&ds[i], dispatch.Refused, unable.Error())
		}
		if err := src.Finish(ctx, results, now); err != nil {
			pause.For(ctx, retryAfterFault)
			return
		}
	}
}
