package escalation

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"godwit.dev/godwit/internal/campaigns/template"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/dispatch"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/sending/sealed"
)

// backlog gives access to the sends of an app over one channel.
type backlog struct {
	s     *Service
	place Place

	mu    sync.Mutex
	known map[int64]*Due                       // sends that were read and have no result yet
	notes map[int64]*notification.Notification // of those that were claimed
	key   sealed.Key                           // of tokens to acknowledge with
}

var _ dispatch.Backlog = (*backlog)(nil)

func newBacklog(s *Service, p Place) *backlog {
	return &backlog{s: s, place: p, known: make(map[int64]*Due), notes: make(map[int64]*notification.Notification)}
}

// Due implements dispatch.Backlog.
func (s *backlog) Due(ctx context.Context, _ push.Channel, now time.Time, limit int) ([]dispatch.Delivery, error) {
	list, err := s.s.cfg.Store.DueSends(ctx, s.place, now, limit)
	if err != nil {
		return nil, err
	}
	ds := make([]dispatch.Delivery, len(list))
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range list {
		ds[i] = list[i].Delivery
		s.known[list[i].Row] = &list[i]
	}
	return ds, nil
}

// NextDue implements dispatch.Backlog. The job ends when no send is left; the next step starts another one.
func (s *backlog) NextDue(ctx context.Context, _ push.Channel) (at time.Time, ended bool, err error) {
	at, err = s.s.cfg.Store.NextSend(ctx, s.place)
	return at, true, err
}

// Window implements dispatch.Backlog: a send is useful until its notification expires.
func (s *backlog) Window(d *dispatch.Delivery, now time.Time) (from, until time.Time) {
	return now, s.of(d.Row).ExpiresAt
}

func (s *backlog) of(row int64) *Due {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d := s.known[row]; d != nil {
		return d
	}
	return &Due{}
}

// Claim implements dispatch.Backlog. It checks last whether a copy is still open, after the send was stored as being sent.
func (s *backlog) Claim(ctx context.Context, ds []dispatch.Delivery, now time.Time) ([]dispatch.Delivery, error) {
	rows := make([]int64, len(ds))
	for i := range ds {
		rows[i] = ds[i].Row
	}
	marked, err := s.s.cfg.Store.ClaimSends(ctx, s.place, rows, now)
	if err != nil {
		return nil, err
	}
	var claimed []dispatch.Delivery
	var refs []mailbox.Ref
	for i := range ds {
		if marked[ds[i].Row] {
			claimed = append(claimed, ds[i])
			refs = append(refs, mailbox.Ref{App: s.place.App, Recipient: ds[i].Recipient, Pos: s.of(ds[i].Row).Pos})
		}
	}
	items, err := s.s.cfg.Mailbox.Items(ctx, refs)
	var key sealed.Key
	if err == nil {
		key, err = s.s.cfg.Tokens.Key(ctx, s.place.App)
	}
	if err != nil { // nothing of it leaves
		results := make([]dispatch.Result, len(claimed))
		for i := range claimed {
			results[i] = result(&claimed[i], dispatch.Pending, "")
			results[i].Due = now.Add(retryAfterFault)
		}
		if ferr := s.Finish(context.WithoutCancel(ctx), results, now); ferr != nil {
			return nil, fmt.Errorf("put sends off whose notifications cannot be read: %w", ferr)
		}
		return nil, nil
	}
	var over []dispatch.Result
	open := claimed[:0]
	s.mu.Lock()
	s.key = key
	for i := range claimed {
		if items[i] == nil {
			over = append(over, result(&claimed[i], dispatch.Suppressed, "acknowledged, or ended in another way, before it was sent"))
			continue
		}
		s.notes[claimed[i].Row] = items[i].N
		open = append(open, claimed[i])
	}
	s.mu.Unlock()
	if len(over) > 0 {
		if err := s.Finish(context.WithoutCancel(ctx), over, now); err != nil {
			s.s.cfg.Log.WarnContext(ctx, "it cannot be noted that sends were called off; after a restart they are looked at again", "error", err)
		}
	}
	return open, nil
}

// result is the outcome of a delivery without an attempt. A message that may have arrived earlier becomes unknown, not suppressed.
func result(d *dispatch.Delivery, o dispatch.Outcome, detail string) dispatch.Result {
	if d.Unsure && o == dispatch.Suppressed {
		o, detail = dispatch.Unknown, "an earlier attempt may have arrived; then: "+detail
	}
	return dispatch.Result{Row: d.Row, Channel: d.Channel, Outcome: o, Detail: detail, Attempts: d.Attempts, Unsure: d.Unsure}
}

// Request implements dispatch.Backlog.
func (s *backlog) Request(d *dispatch.Delivery, _ time.Time) push.Request {
	s.mu.Lock()
	due, n, key := s.known[d.Row], s.notes[d.Row], s.key
	s.mu.Unlock()
	q := request(s.place.App, due.ID, due.Note, due.Options.To, d, due.ExpiresAt)
	q.Content = s.content(n, d)
	pressAll(key, due.ID, &q.Content)
	q.Collapse, q.Urgency = n.CollapseKey, urgency(n.Priority)
	q.AckToken = ackToken(key, due.ID, due.Options, due.ExpiresAt)
	if due.Options.Shown {
		q.Settle = notification.SettleShown
	}
	return q
}

// content returns a notification's content for a channel. If it was made from a template, the content is in the endpoint's language.
func (s *backlog) content(n *notification.Notification, d *dispatch.Delivery) (c push.Content) {
	own := true
	if c = (push.Content{Title: n.Content.Title, Body: n.Content.Body, Category: n.Content.Category}); n.Content.Push != nil {
		if m, err := template.ReadMessage(n.Content.Push); err != nil {
			s.s.cfg.Log.Error("a notification is sent in its sessions' language alone", "app", n.App, "id", n.ID, "error", err)
		} else {
			c, own = m.Render(d.Recipient, d.Locale, d.Channel), m.OwnData
		}
	}
	if own && notification.IsJSON(n.Content.ContentType) && len(n.Content.Data) > 0 {
		c.Data = n.Content.Data
	}
	return c
}

func request(app string, id [16]byte, note, to string, d *dispatch.Delivery, expires time.Time) push.Request {
	endpoint := d.EndpointID.String()
	if to != "" { // a target has no public id
		endpoint = ""
	}
	return push.Request{
		ID: text(id), GodwitID: note, App: app, Endpoint: endpoint, Recipient: d.Recipient, Address: d.Address, ExpiresAt: expires,
	}
}

func urgency(p notification.Priority) push.Urgency {
	switch p {
	case notification.High:
		return push.UrgencyHigh
	case notification.Low:
		return push.UrgencyLow
	case notification.Normal:
	}
	return push.UrgencyNormal
}

// Finish implements dispatch.Backlog. It withdraws messages that devices may show if their copy is no longer open.
func (s *backlog) Finish(ctx context.Context, results []dispatch.Result, now time.Time) error {
	done := s.forget(results) // forget first: postponed sends may be read again as soon as they are stored
	s.s.beginTelling(done)
	if err := s.s.cfg.Store.FinishSends(ctx, s.place, results, now); err != nil {
		s.s.endTelling(done)
		s.remember(done)
		return err
	}
	s.s.metrics.count(results)
	if slices.ContainsFunc(results, func(r dispatch.Result) bool { return r.Held }) {
		s.s.wasRefused(s.place.App)
	}
	s.s.tell(s.place, done, results, now)
	return nil
}

// looked is a send from its read until its result.
type looked struct {
	due  *Due
	note *notification.Notification
}

func (s *backlog) forget(results []dispatch.Result) map[int64]looked {
	done := make(map[int64]looked, len(results))
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range results {
		row := results[i].Row
		done[row] = looked{s.known[row], s.notes[row]}
		delete(s.known, row)
		delete(s.notes, row)
	}
	return done
}

func (s *backlog) remember(done map[int64]looked) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for row, l := range done {
		if l.due != nil {
			s.known[row] = l.due
		}
		if l.note != nil {
			s.notes[row] = l.note
		}
	}
}
