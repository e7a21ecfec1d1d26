// Package mailbox keeps the notifications that wait for a recipient: append, pending, acknowledgement, expiry, redelivery. It uses a store
// through an interface; sessions and the API call it.
package mailbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"godwit.dev/godwit/internal/feeds/event"
	"godwit.dev/godwit/internal/notify/inbox"
	"godwit.dev/godwit/internal/notify/notification"
)

// Router passes durable changes of the store to the sessions of this node.
type Router interface {
	// Route passes deliverable items on, each recipient's in commit order; calls for different recipients may run at the same time. It must
	// not wait for the store's writer.
	Route(items []Item)
	// Settled reports copies that need not be delivered or shown any more.
	Settled(done []Settled)
	// Reread reports that a notification of a recipient may not have been routed.
	Reread(app, recipient string)
	// Hold holds back what the connections of recipients get until release, so that a notification and the counts of its inbox leave together.
	Hold(changed []inbox.Change) (release func())
	// Inboxes reports inboxes that have changed.
	Inboxes(changed []inbox.Change)
}

// Presence lists the devices that are connected to any node. It may query other nodes, which takes up to a quarter of a second.
type Presence interface {
	// Online names the connected devices of a recipient, by device name or session id. An error means that some are not known.
	Online(ctx context.Context, app, recipient string) ([]string, error)
}

// Emitter takes events for feeds.
type Emitter interface {
	Emit(evs []event.Event)
}

// Escalations is informed about notifications with steps beyond live. It must not keep its arguments or wait.
type Escalations interface {
	// Stored reports copies that are deliverable now.
	Stored(items []Item)
	Settled(done []Settled)
}

// Config holds the parts and settings of a Mailbox.
type Config struct {
	Store  Store // which the Mailbox observes
	Events Emitter
	// Inboxes are the store's; nil: it has none.
	Inboxes inbox.Store
	Retain  time.Duration // how long settled notifications are kept; default 7 days
	Tracer  Tracer        // nil: there is none
	Log     *slog.Logger
}

// Tracer follows single notifications. It must not keep its arguments or wait.
type Tracer interface {
	Committed(b *Batch)
	Delivered(marks []Mark)
}

// Mailbox holds the mailboxes of all recipients. Stored notifications wait there until their recipients have sessions.
type Mailbox struct {
	store   Store
	above   atomic.Pointer[sessions]
	inboxes inbox.Store                            // nil: the store has none
	steps   atomic.Pointer[Escalations]            // nil: there are none
	marked  atomic.Pointer[[]func([]inbox.Change)] // who follows inboxes; nil: nobody
	events  Emitter
	tracer  Tracer
	now     func() time.Time
	retain  time.Duration
	log     *slog.Logger
	wake    waker
	prunes  waker
	metrics counters
	lists   sync.Pool // of *[]event.Event, empty
	told    func(app, note, to string) bool
	aside   Aside // nil: no copies are kept elsewhere
}

// New makes a Mailbox that observes its store.
func New(cfg Config) *Mailbox {
	if cfg.Retain == 0 {
		cfg.Retain = 7 * 24 * time.Hour
	}
	m := &Mailbox{
		inboxes: cfg.Inboxes,
		store:   cfg.Store, events: cfg.Events, now: cfg.Store.Clock(), retain: cfg.Retain, tracer: cfg.Tracer, log: cfg.Log,
		wake: newWaker(cfg.Store.LookAgain()), prunes: newWaker(pruneEvery),
		lists: sync.Pool{New: func() any { return new([]event.Event) }},
	}
	m.RouteTo(nobody{}, nobody{})
	cfg.Store.Observe(m)
	return m
}

// LeaveOut excludes first deliveries from the log for which told returns true: the log recorded them before a crash. It must be called
// before the first delivery.
func (m *Mailbox) LeaveOut(told func(app, note, to string) bool) { m.told = told }

// sessions is the interface of the mailbox to the sessions.
type sessions struct {
	Router
	Presence
}

// RouteTo makes r the receiver of notifications that become durable from now on, and p the source of presence. A new hub calls it.
func (m *Mailbox) RouteTo(r Router, p Presence) { m.above.Store(&sessions{r, p}) }

// EscalateTo reports notifications with steps beyond live to e from now on.
func (m *Mailbox) EscalateTo(e Escalations) { m.steps.Store(&e) }

// FollowInboxes calls f with the inboxes that each commit of this node has changed, beside those that were given before. f must not keep its
// argument or wait. Calls with one inbox come one after the other; others may come at the same time.
func (m *Mailbox) FollowInboxes(f func([]inbox.Change)) {
	var all []func([]inbox.Change)
	if before := m.marked.Load(); before != nil {
		all = slices.Clone(*before)
	}
	all = append(all, f)
	m.marked.Store(&all)
}

// Online names the connected devices of a recipient; see Presence.
func (m *Mailbox) Online(ctx context.Context, app, recipient string) ([]string, error) {
	return m.above.Load().Online(ctx, app, recipient)
}

// nobody is used by a mailbox that has no sessions.
type nobody struct{}

func (nobody) Route([]Item)                                             {}
func (nobody) Settled([]Settled)                                        {}
func (nobody) Hold([]inbox.Change) (release func())                     { return func() {} }
func (nobody) Inboxes([]inbox.Change)                                   {}
func (nobody) Reread(string, string)                                    {}
func (nobody) Online(context.Context, string, string) ([]string, error) { return nil, nil }

// Clock returns a clock that reads the wall clock once and then advances with the monotonic clock. So when the system's clock is set while
// the process runs, nothing expires early and the order of times stays.
func Clock() func() time.Time {
	start := time.Now()
	return func() time.Time { return start.Add(time.Since(start)) }
}

var _ Observer = (*Mailbox)(nil)

// Append stores and routes notifications. If the process of an earlier publish died, or its connection broke, its notification may have
// been stored and not routed. The publisher then publishes it again, and a duplicate makes the sessions read again too.
func (m *Mailbox) Append(ctx context.Context, batch []*Append) error {
	if err := m.store.Append(ctx, batch); err != nil {
		if errors.Is(err, ErrNoSpace) {
			m.metrics.refused.Add(uint64(len(batch)))
		}
		return err
	}
	for _, a := range batch {
		for i := range a.Results {
			if r := &a.Results[i]; r.Duplicate && !r.Status.Settled(a.N.Ack) {
				m.above.Load().Reread(a.N.App, a.To[i])
			}
		}
	}
	return nil
}

// Delivered records that copies were written to connections. The store writes that with a later commit. Followers of the events are
// informed of first deliveries at once, or, if the delivery settles the copy, with its commit.
func (m *Mailbox) Delivered(marks []Mark) {
	m.emit(len(marks), func(i int) (event.Event, bool) {
		mk := &marks[i]
		first := mk.Attempts == 1 && !notification.Delivered.Settled(mk.Ack) && (m.told == nil || !m.told(mk.App, mk.ID, mk.Recipient))
		return event.Event{App: mk.App, Type: event.Delivered, At: mk.DeliveredAt, Note: mk.ID, To: mk.Recipient}, first
	})
	m.metrics.categories.delivered(marks)
	m.store.Mark(marks) // before the report to followers, who may read the store
	if m.tracer != nil {
		m.tracer.Delivered(marks)
	}
}

// Ack settles notifications of one recipient by id and returns once that is on disk. n is the number of notifications that this call has
// acknowledged; ids that are unknown, settled or too late are skipped. device names the acknowledging device, for notifications that every
// device must acknowledge.
func (m *Mailbox) Ack(ctx context.Context, app, recipient, device string, ids []string) (n int, err error) {
	at := m.now()
	online, err := m.above.Load().Online(ctx, app, recipient)
	if err != nil {
		return 0, fmt.Errorf("acknowledge for %s: %w", recipient, err)
	}
	batch := make([]*Settle, len(ids))
	for i, id := range ids {
		batch[i] = &Settle{App: app, Recipient: recipient, ID: id, As: notification.Acked, Device: device, Online: online, At: at}
	}
	return m.settle(ctx, batch, fmt.Sprintf("acknowledge for %s", recipient))
}

// Answer settles a notification of one recipient by a reply, and returns once that is on disk. It changes no notification that is unknown,
// settled or too late.
func (m *Mailbox) Answer(ctx context.Context, app, recipient, id string, r *notification.Reply) error {
	s := &Settle{App: app, Recipient: recipient, ID: id, As: notification.Replied, At: m.now(), Reply: r}
	_, err := m.settle(ctx, []*Settle{s}, fmt.Sprintf("answer %s for %s", id, recipient))
	return err
}

// Recall withdraws a notification from one recipient, or from all if to is empty. n is the number of withdrawn copies; copies settled
// earlier stay as they are. ErrNotFound: there is no such notification.
func (m *Mailbox) Recall(ctx context.Context, app, id, to string) (n int, err error) {
	records, err := m.store.Lookup(ctx, app, id, to)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return 0, err
	}
	waiting, gathered, err := m.recallAside(ctx, app, id, to)
	if err != nil {
		return 0, fmt.Errorf("recall %s: %w", id, err)
	}
	var batch []*Settle
	names := make([]string, 0, len(records))
	for _, r := range records {
		names = append(names, r.To)
		if !r.Status.Settled(r.Ack) {
			batch = append(batch, &Settle{App: app, Recipient: r.To, ID: id, Pos: r.Pos, As: notification.Recalled, At: m.now()})
		}
	}
	if n, err = m.settle(ctx, batch, "recall "+id); err != nil {
		return waiting + n, err
	}
	if len(names) == 0 && to != "" {
		names = append(names, to)
	}
	left, err := m.leaveInboxes(ctx, app, id, names)
	if err == nil && len(records) == 0 && left == 0 && !gathered {
		err = fmt.Errorf("recall %s: %w", id, ErrNotFound)
	}
	return waiting + max(n, left), err
}

func (m *Mailbox) settle(ctx context.Context, batch []*Settle, what string) (n int, err error) {
	if len(batch) == 0 {
		return 0, nil
	}
	if err := m.store.Settle(ctx, batch); err != nil {
		return 0, fmt.Errorf("%s: %w", what, err)
	}
	for _, s := range batch {
		if s.Outcome == SettleDone || s.Outcome == SettlePartial {
			n++
		}
	}
	return n, nil
}
