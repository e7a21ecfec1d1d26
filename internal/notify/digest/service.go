package digest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"godwit.dev/godwit/internal/campaigns/preference"
	"godwit.dev/godwit/internal/cluster/lease"
	"godwit.dev/godwit/internal/feeds/event"
	"godwit.dev/godwit/internal/notify/delivery"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
)

// Publisher stores and routes notifications; it returns once they are on disk.
type Publisher interface {
	Publish(ctx context.Context, app string, drafts []*notification.Draft) []delivery.Result
}

// Mailboxes finds and withdraws notifications that are stored as such.
type Mailboxes interface {
	Lookup(ctx context.Context, app, id, to string) ([]mailbox.Record, error)
}

// Config holds what a Service needs.
type Config struct {
	Store     Store
	Mailboxes Mailboxes // without the copies that are kept aside
	Publisher Publisher
	// Recall withdraws a notification from a recipient.
	Recall func(ctx context.Context, app, id, to string) (int, error)
	// Categories returns an app's settings for its categories.
	Categories func(app string) map[string]preference.Category
	// Gathers reports whether one of them gathers. Every publish asks it.
	Gathers func(app string) bool
	// Fill adds the content to a draft that names a template.
	Fill   delivery.Fill
	Events mailbox.Emitter
	Own    lease.Func // nil: no other node sends digests
	Now    func() time.Time
	Retain time.Duration // how long items and digests are kept that have ended
	Log    *slog.Logger
}

// Service gathers notifications and sends digests.
type Service struct {
	cfg     Config
	metrics counters
	wake    chan struct{}
	next    atomic.Int64 // when the sender looks again, in Unix milliseconds

	holding atomic.Pointer[map[string]bool] // apps that had items when they were last read, or gather since; the map is never changed

	mu      sync.Mutex
	waiting map[string]Count // by app, when it was last read, and what was added since
}

var (
	_ delivery.Gatherer = (*Service)(nil)
	_ mailbox.Aside     = (*Service)(nil)
)

// New makes a Service. Load must be called before it is used.
func New(cfg Config) *Service {
	s := &Service{cfg: cfg, wake: make(chan struct{}, 1), waiting: make(map[string]Count)}
	s.metrics.init()
	s.holding.Store(&map[string]bool{})
	return s
}

// Load reads which apps have items.
func (s *Service) Load(ctx context.Context) error {
	apps, err := s.cfg.Store.Apps(ctx)
	if err != nil {
		return err
	}
	waiting, err := s.cfg.Store.Waiting(ctx)
	if err != nil {
		return err
	}
	holding := make(map[string]bool, len(apps))
	for _, app := range apps {
		holding[app] = true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = waiting
	s.holding.Store(&holding)
	return nil
}

// hold notes that an app has items. s.mu is held.
func (s *Service) hold(app string) {
	if known := *s.holding.Load(); !known[app] {
		next := maps.Clone(known)
		next[app] = true
		s.holding.Store(&next)
	}
}

// Gathers implements delivery.Gatherer and mailbox.Aside.
func (s *Service) Gathers(app string) bool {
	return s.cfg.Gathers(app) || (*s.holding.Load())[app]
}

// rules returns how a category gathers.
func (s *Service) rules(app, category string) preference.Digest {
	_, c := preference.Governing(s.cfg.Categories(app), category)
	return c.Digest
}

// gathers reports whether a draft waits for a digest. Urgent ones, questions and those with a time of their own go around it.
func gathers(d *notification.Draft, n *notification.Notification, rules preference.Digest) bool {
	return !rules.IsZero() && !d.Alone && n.Priority != notification.High && n.ReplyBy.IsZero() && n.SendAt.IsZero()
}

// Gather implements delivery.Gatherer.
func (s *Service) Gather(ctx context.Context, app string, batch []*mailbox.Append, drafts []*notification.Draft) (taken [][]bool, err error) {
	now := s.cfg.Now()
	taken = make([][]bool, len(batch))
	var lots []*Lot
	var at []int
	for i, a := range batch {
		rules := s.rules(app, a.N.Content.Category)
		joins := gathers(drafts[i], a.N, rules)
		if drafts[i].Alone || a.Fresh && !joins {
			continue
		}
		l, err := s.lot(ctx, a, drafts[i], rules, joins, now)
		if err != nil {
			return nil, err
		}
		if l != nil {
			lots, at = append(lots, l), append(at, i)
		}
	}
	if len(lots) == 0 {
		return taken, nil
	}
	if err := s.cfg.Store.Gather(ctx, lots, now); err != nil {
		return nil, err
	}
	for k, l := range lots {
		taken[at[k]] = results(batch[at[k]], l)
	}
	s.gathered(lots, now)
	return taken, nil
}

// lot makes the lot of a notification; nil: it is stored as a notification already.
func (s *Service) lot(ctx context.Context, a *mailbox.Append, d *notification.Draft, rules preference.Digest, joins bool, now time.Time) (*Lot, error) {
	n := a.N
	l := &Lot{App: n.App, ID: n.ID, To: a.To, Known: !joins, Sum: sumOf(&n.Content), Created: n.CreatedAt, Refused: a.Refused}
	if !joins {
		return l, nil
	}
	if !a.Fresh { // published before its category gathered?
		records, err := s.cfg.Mailboxes.Lookup(ctx, n.App, n.ID, "")
		if err != nil && !errors.Is(err, mailbox.ErrNotFound) {
			return nil, err
		}
		if len(records) > 0 {
			return nil, nil // the mailboxes know what to do with it
		}
	}
	if s.full(n.App) && l.Refused == nil {
		l.Refused = fmt.Errorf("%w: %d digests of the app wait", mailbox.ErrFull, MaxOpenOfApp)
	}
	var err error
	if l.Body, err = encode(n, d); err != nil {
		return nil, err
	}
	l.Category, l.Key, l.Collapse = stored(n.Content.Category), keyOf(d, &n.Content, rules.By), n.CollapseKey
	l.Window, l.Most = rules.Window, rules.Most()
	if d.TTL != 0 || !d.ExpiresAt.IsZero() {
		l.Expires = n.ExpiresAt
	}
	return l, nil
}

// sumOf identifies a content: that of two publishes of one id must be the same.
func sumOf(c *notification.Content) []byte {
	h := sha256.New()
	texts := []string{c.Key}
	if c.Key == "" {
		texts = []string{c.Title, c.Body, c.Category, string(c.Data), c.ContentType}
	}
	for _, text := range texts {
		fmt.Fprintf(h, "%d:%s", len(text), text)
	}
	return h.Sum(nil)[:16]
}

// results puts the results of a lot into those of its publish, and returns which copies have one.
func results(a *mailbox.Append, l *Lot) []bool {
	a.Results = make([]mailbox.AppendResult, len(l.Results))
	taken := make([]bool, len(l.Results))
	for i := range l.Results {
		a.Results[i], taken[i] = l.Results[i].AppendResult, !l.Results[i].Absent
	}
	return taken
}

// gathered counts new items, emits their events, and wakes the sender.
func (s *Service) gathered(lots []*Lot, now time.Time) {
	var evs []event.Event
	next := int64(0)
	s.mu.Lock()
	for _, l := range lots {
		for i := range l.Results {
			r := &l.Results[i]
			switch {
			case r.Absent || r.Err != nil:
				continue
			case r.Duplicate:
				s.metrics.items.WithLabelValues("duplicate").Inc()
				continue
			}
			s.hold(l.App)
			c := s.waiting[l.App]
			if c.Items++; r.Opened {
				c.Digests++
			}
			s.waiting[l.App] = c // until they are read again
			s.metrics.items.WithLabelValues("gathered").Inc()
			evs = append(evs, event.Event{App: l.App, Type: event.Gathered, At: now, Note: l.ID, To: l.To[i], Category: l.Category, Detail: r.Digest})
			evs = s.tell(evs, event.Expired, l.App, l.To[i], r.Expired, "", now)
			evs = s.tell(evs, event.Replaced, l.App, l.To[i], r.Replaced, "", now)
			if r.Due {
				next = now.UnixMilli()
			} else if next == 0 || r.Until < next {
				next = r.Until
			}
		}
	}
	s.mu.Unlock()
	s.emit(evs)
	s.wakeAt(next)
}

// tell adds the events of items that have ended.
func (s *Service) tell(evs []event.Event, what event.Type, app, to string, ids []string, detail string, now time.Time) []event.Event {
	s.metrics.items.WithLabelValues(string(what)).Add(float64(len(ids)))
	for _, id := range ids {
		evs = append(evs, event.Event{App: app, Type: what, At: now, Note: id, To: to, Detail: detail})
	}
	return evs
}

// full reports whether an app has as many digests as may wait.
func (s *Service) full(app string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting[app].Digests >= MaxOpenOfApp
}

// Lookup implements mailbox.Aside.
func (s *Service) Lookup(ctx context.Context, app, id, to string) ([]mailbox.Record, error) {
	return s.cfg.Store.Lookup(ctx, app, id, to, s.cfg.Now())
}

// Recall implements mailbox.Aside.
func (s *Service) Recall(ctx context.Context, app, id, to string) (n int, found bool, err error) {
	now := s.cfg.Now()
	recalled, found, err := s.cfg.Store.Recall(ctx, app, id, to, now)
	var evs []event.Event
	for _, to := range recalled {
		evs = s.tell(evs, event.Recalled, app, to, []string{id}, "", now)
	}
	s.emit(evs)
	s.less(app, 0, len(recalled))
	return len(recalled), found, err
}

// less counts what does not wait any more, until what waits is read again.
func (s *Service) less(app string, digests, items int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.waiting[app]
	s.waiting[app] = Count{max(c.Digests-int64(digests), 0), max(c.Items-int64(items), 0)}
}

// Digests lists digests; see Store.
func (s *Service) Digests(ctx context.Context, app, to string, waiting bool, before string, limit int) ([]Digest, error) {
	return s.cfg.Store.Digests(ctx, app, to, waiting, before, limit)
}

// Digest returns a digest with the ids of its items; see Store.
func (s *Service) Digest(ctx context.Context, app, id string) (Digest, []string, error) {
	return s.cfg.Store.Digest(ctx, app, id)
}

// EraseRecipient deletes a recipient's items and digests, and returns how many items that were.
func (s *Service) EraseRecipient(ctx context.Context, app, recipient string) (int, error) {
	return s.cfg.Store.EraseRecipient(ctx, app, recipient)
}

// ForgetApp forgets what waits for an app whose data is erased from the store.
func (s *Service) ForgetApp(_ context.Context, app string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.waiting, app)
	return nil
}

// emit emits events in portions: the log copies them.
func (s *Service) emit(evs []event.Event) {
	const most = 256
	for len(evs) > most {
		s.cfg.Events.Emit(evs[:most])
		evs = evs[most:]
	}
	if len(evs) > 0 {
		s.cfg.Events.Emit(evs)
	}
}

func isField(err error) bool {
	_, ok := errors.AsType[*notification.FieldError](err)
	return ok
}
