package campaign

import (
	"context"
	"errors"
	"time"

	"godwit.dev/godwit/internal/sending/dispatch"
	"godwit.dev/godwit/internal/sending/push"
)

// A campaign under way is a backlog of deliveries: its rows.
var _ dispatch.Backlog = (*run)(nil)

// namedBy returns the recipients that a campaign's audience lists by name; nil: it lists none.
func namedBy(c *Campaign) map[string]bool {
	if len(c.Spec.Audience.Recipients) == 0 {
		return nil
	}
	named := make(map[string]bool, len(c.Spec.Audience.Recipients))
	for _, name := range c.Spec.Audience.Recipients {
		named[name] = true
	}
	return named
}

// Due implements dispatch.Backlog. If an endpoint now belongs to a recipient that the audience does not list, it does not get the message.
func (r *run) Due(ctx context.Context, ch push.Channel, now time.Time, limit int) ([]Target, error) {
	list, err := r.s.store.Due(ctx, r.c.Num, ch, now, limit)
	if r.named != nil {
		for i := range list {
			list[i].Left = list[i].Left || !r.named[list[i].Recipient]
		}
	}
	if err != nil {
		return nil, err
	}
	return r.admit(ctx, list, now)
}

// NextDue implements dispatch.Backlog. ended is true once every endpoint of the audience has its row, and none waits for a decision.
func (r *run) NextDue(ctx context.Context, ch push.Channel) (at time.Time, ended bool, err error) {
	ended = r.enumerated.Load() && r.final.Load() // read before the query: rows added after the query are found in the next round
	at, _, err = r.s.store.NextDue(ctx, r.c.Num, ch)
	return at, ended, err
}

// Window implements dispatch.Backlog: it begins at the end of quiet hours and ends when the delivery expires.
func (r *run) Window(t *Target, now time.Time) (from, until time.Time) {
	return r.quiet.next(now, t.Timezone), r.expires(t, now)
}

// expires returns when a delivery expires.
func (r *run) expires(t *Target, now time.Time) time.Time {
	first := t.First
	if first.IsZero() {
		first = now
	}
	at := first.Add(r.c.Spec.Life())
	if e := r.c.Spec.Expires; !e.IsZero() && e.Before(at) {
		at = e
	}
	return at
}

// Claim implements dispatch.Backlog. Once begun, it is cancelled only when this server loses the app: an outage of the store ends the
// parallel tasks, but the claim must still find out what was stored.
func (r *run) Claim(_ context.Context, targets []Target, now time.Time) (claimed []Target, err error) {
	claimed, err = r.claim(r.t.own.hard, targets, now)
	if errors.Is(err, ErrUncertain) {
		r.t.own.again.Store(true)
		r.t.own.lose()
	}
	return claimed, err
}

// Request implements dispatch.Backlog.
func (r *run) Request(t *Target, now time.Time) push.Request {
	id := DeliveryID(r.c.ID, t.EndpointID.String())
	person := Person{Recipient: t.Recipient, Locale: t.Locale, Attributes: t.Attributes}
	q := push.Request{
		ID: id, App: r.c.App, Endpoint: t.EndpointID.String(), Recipient: t.Recipient, Address: t.Address,
		Content: r.spec(t).Render(person, t.Channel), Urgency: r.c.Spec.Urgency(), Collapse: r.c.Spec.Collapse,
		ExpiresAt: r.expires(t, now),
	}
	pressAll(r.key, r.c, t.Row, &q.Content)
	if r.c.Spec.Tracked() {
		q.Track = trackToken(r.key, r.c.Num, t.Row, "")
		if t.Channel == push.Telegram { // its links have no other way to report clicks
			r.s.redirectAll(r.key, r.c.Num, t.Row, &q.Content)
		}
	}
	return q
}

// Finish implements dispatch.Backlog.
func (r *run) Finish(ctx context.Context, results []Result, now time.Time) error {
	if err := r.s.store.Finish(ctx, r.t.own.epoch, r.c.Num, results, now); err != nil {
		return err
	}
	sent := 0 // deliveries that have ended, except the suppressed ones
	for i := range results {
		if o := results[i].Outcome; o != Pending && o != Suppressed {
			sent++
		}
	}
	r.t.meter.add(now, sent)
	select {
	case r.landed <- struct{}{}:
	default:
	}
	return nil
}
