package campaign

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"godwit.dev/godwit/internal/campaigns/preference"
	"godwit.dev/godwit/internal/cluster/lease"
	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/dispatch"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/sending/sealed"
)

// Config holds the parts and settings of a Service.
type Config struct {
	Store    Store
	Dispatch *dispatch.Dispatcher
	Now      func() time.Time // the store's clock
	// PublicURL is this server's URL for receivers, used by the redirect that counts clicks on links in chats; empty: links are not
	// replaced. Receivers of Web Push report clicks themselves.
	PublicURL string
	// Own decides which server sends for an app. nil: there is only this server.
	Own lease.Func
	// Categories returns an app's settings for its categories. nil: there are none.
	Categories func(app string) map[string]preference.Category
	Events     Events // nil: nothing is recorded
	// Templates are the templates that campaigns may use. nil: there are none.
	Templates Templates
	// Segments are the segments that audiences may name. nil: there are none.
	Segments Segments
	Tokens   *sealed.Tokens // nil: use the secrets in Store
	Log      *slog.Logger
}

// Service manages campaigns: its methods are the actions of people, and Run carries them out.
type Service struct {
	cfg      Config
	store    Store
	dispatch *dispatch.Dispatcher
	log      *slog.Logger
	metrics  *metrics
	wake     chan struct{} // has an element if the engine must check for changes

	sightings sightings

	apps map[string]*owning // apps whose deliveries this server wants to own; only Run's goroutine uses it

	tokens *sealed.Tokens

	mu    sync.Mutex
	tasks map[int64]*task // by campaign
}

// New returns a Service. It sends nothing before Run is called.
func New(cfg Config) *Service {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Tokens == nil {
		cfg.Tokens = sealed.New(cfg.Store, nil)
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Service{
		cfg: cfg, store: cfg.Store, dispatch: cfg.Dispatch, tokens: cfg.Tokens, log: cfg.Log, metrics: newMetrics(), wake: make(chan struct{}, 1),
		apps: make(map[string]*owning), tasks: make(map[int64]*task), sightings: sightings{wait: make(chan sighting, maxSightings)},
	}
}

func (s *Service) notify() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// View is a campaign with its counts and its current speed.
type View struct {
	Campaign
	Figures
	Rate float64   // outcomes a second: over the last seconds, or after the end, over the whole run; 0: unknown
	ETA  time.Time // see expected; zero: not known
	// Links: links in chats lead over this server, so that clicks on them are counted.
	Links bool
	// Kept: inboxes keep its messages over live, and so report reactions.
	Kept bool
	// Duplicate: an earlier request with the same Idempotency-Key created the campaign.
	Duplicate bool
}

// Create stores a new campaign. It is a draft, or scheduled if sendAt is set. idem and body identify a repeated request; idem may be empty.
func (s *Service) Create(ctx context.Context, app string, spec Spec, sendAt time.Time, idem string, body [32]byte) (*View, error) {
	c, err := s.created(ctx, app, spec, sendAt)
	var first *Campaign
	switch {
	case err == nil:
		first, err = s.store.Insert(ctx, c, idem, body)
	case idem != "": // the request may have been valid when the campaign was created
		var made error
		if first, made = s.store.Made(ctx, app, idem, body); first != nil || made != nil {
			err = made
		}
	}
	if err != nil {
		return nil, err
	}
	return s.inserted(ctx, c, first)
}

// insert stores a new campaign.
func (s *Service) insert(ctx context.Context, c *Campaign, idem string, body [32]byte) (*View, error) {
	first, err := s.store.Insert(ctx, c, idem, body)
	if err != nil {
		return nil, err
	}
	return s.inserted(ctx, c, first)
}

// inserted returns a new campaign, or the one that an earlier request with the same key has made.
func (s *Service) inserted(ctx context.Context, c, first *Campaign) (*View, error) {
	if first != nil {
		v, err := s.view(ctx, first)
		if v != nil {
			v.Duplicate = true
		}
		return v, err
	}
	s.notify()
	return s.view(ctx, c)
}

// defined returns a new draft of a definition, whose templates and segment are filled in, and which passes a check.
func (s *Service) defined(ctx context.Context, app string, spec Spec, sendAt time.Time, check func(s *Spec, now, sendAt time.Time) error) (*Campaign, error) {
	now := s.cfg.Now().Truncate(time.Millisecond)
	if err := s.compose(ctx, app, &spec); err != nil {
		return nil, err
	}
	sendAt, err := spec.beginsAt(sendAt, now)
	if err != nil {
		return nil, err
	}
	if err := check(&spec, now, sendAt); err != nil {
		return nil, err
	}
	return &Campaign{ID: newID(now), App: app, Spec: spec, State: Draft, CreatedAt: now, SendAt: sendAt.Truncate(time.Millisecond)}, nil
}

// created returns a campaign as Create stores it.
func (s *Service) created(ctx context.Context, app string, spec Spec, sendAt time.Time) (*Campaign, error) {
	c, err := s.defined(ctx, app, spec, sendAt, (*Spec).Check)
	if err != nil || c.SendAt.IsZero() {
		return c, err
	}
	c.State = Scheduled
	c.Channels, err = s.channels(ctx, c)
	return c, err
}

// Revise replaces a campaign's settings. It fails if the campaign has started, and with *setting.ChangedError if it has not the revision that
// must demands.
func (s *Service) Revise(ctx context.Context, app, id string, spec Spec, sendAt time.Time, must setting.Match) (*View, error) {
	c, err := s.created(ctx, app, spec, sendAt)
	if err != nil {
		return nil, err
	}
	return s.replace(ctx, id, c, must)
}

// replace gives a campaign the definition, time and state of another one.
func (s *Service) replace(ctx context.Context, id string, with *Campaign, must setting.Match) (*View, error) {
	return s.change(ctx, with.App, id, func(c *Campaign) error {
		if c.State != Draft && c.State != Scheduled {
			return &StateError{Action: "be revised", State: c.State, Hint: "it has begun"}
		}
		if err := c.replaceable(must, with); err != nil {
			return err
		}
		c.Spec, c.SendAt, c.Channels, c.State = with.Spec, with.SendAt, with.Channels, with.State
		return nil
	})
}

func newID(now time.Time) string {
	var id ulid.ULID
	_ = id.SetTime(ulid.Timestamp(now)) // fails only after the year 10889
	_, _ = rand.Read(id[6:])            // never fails
	return id.String()
}

// channels returns a campaign's channels. They must be able to count what decides between its variants.
func (s *Service) channels(ctx context.Context, c *Campaign) ([]push.Channel, error) {
	able, err := s.able(ctx, c)
	if err != nil {
		return nil, err
	}
	return able, c.Spec.checkCounted(able, s.cfg.PublicURL != "")
}

// able returns the channels that a campaign names, if all can send. For a campaign that names none, it returns all channels of the app that can send.
func (s *Service) able(ctx context.Context, c *Campaign) (able []push.Channel, err error) {
	named := c.Spec.Audience.Channels
	if len(named) > 0 {
		for _, ch := range named {
			if _, err := s.dispatch.Sender(ctx, c.App, ch); err != nil {
				return nil, &ChannelError{Channel: ch, Err: err}
			}
		}
		return named, nil
	}
	var last error
	for _, ch := range push.Channels() {
		if ch.Find().Named {
			continue
		}
		if _, err := s.dispatch.Sender(ctx, c.App, ch); err != nil {
			last = &ChannelError{Channel: ch, Err: err}
		} else {
			able = append(able, ch)
		}
	}
	if len(able) == 0 {
		return nil, last
	}
	return able, nil
}

// Get returns a campaign with its counts.
func (s *Service) Get(ctx context.Context, app, id string) (*View, error) {
	c, err := s.store.Get(ctx, app, id)
	if err != nil {
		return nil, err
	}
	return s.view(ctx, c)
}

func (s *Service) view(ctx context.Context, c *Campaign) (*View, error) {
	f, err := s.store.Figures(ctx, c.Num)
	if err != nil {
		return nil, err
	}
	v := &View{Campaign: *c, Figures: *f, Links: s.cfg.PublicURL != "", Kept: s.inInbox(c.App, c.Spec.Content.Category)}
	s.mu.Lock()
	t := s.tasks[c.Num]
	s.mu.Unlock()
	if took := c.FinishedAt.Sub(c.StartedAt); c.Ended() && !c.StartedAt.IsZero() && took > 0 {
		v.Rate = float64(f.Total()-f.Open()-f.Counts[Suppressed]) / took.Seconds() // on the whole
	}
	if t == nil || c.State != Running {
		return v, nil
	}
	now := s.cfg.Now()
	v.Rate = t.meter.rate(now)
	v.ETA, err = s.expected(ctx, v, now)
	return v, err
}

// List returns a page of an app's campaigns, newest first.
func (s *Service) List(ctx context.Context, app string, limit int, cursor int64) ([]*View, error) {
	cs, err := s.store.List(ctx, app, limit, cursor)
	if err != nil {
		return nil, err
	}
	vs := make([]*View, len(cs))
	for i, c := range cs {
		if vs[i], err = s.view(ctx, c); err != nil {
			return nil, err
		}
	}
	return vs, nil
}

// change changes a campaign and notifies the engine.
func (s *Service) change(ctx context.Context, app, id string, change func(*Campaign) error) (*View, error) {
	c, err := s.store.Change(ctx, app, id, change)
	if err != nil {
		return nil, err
	}
	s.notify()
	return s.view(ctx, c)
}

// Start starts a campaign, at once or at its start time; a sendAt that is not zero replaces that time. If the campaign is scheduled or
// running already, only the time changes.
func (s *Service) Start(ctx context.Context, app, id string, sendAt time.Time) (*View, error) {
	was, err := s.current(ctx, app, id)
	if err != nil {
		return nil, err
	}
	now := s.cfg.Now().Truncate(time.Millisecond)
	if was.Spec.Local != nil && !sendAt.IsZero() {
		_, err := was.Spec.beginsAt(sendAt, now)
		return nil, err
	}
	if err := was.Spec.Check(now, sendAt); err != nil {
		return nil, err
	}
	channels, err := s.channels(ctx, was)
	if err != nil {
		return nil, err
	}
	s.dispatch.Unblock(app) // assume that the person who starts a campaign has checked the channels
	return s.change(ctx, app, id, func(c *Campaign) error {
		switch c.State {
		case Draft, Scheduled:
		case Running:
			return nil
		case Paused:
			return &StateError{Action: "start", State: c.State, Hint: "resume it"}
		default:
			return &StateError{Action: "start", State: c.State, Hint: "make a new one"}
		}
		if !sendAt.IsZero() {
			c.SendAt = sendAt.Truncate(time.Millisecond)
		}
		c.State, c.Channels = Scheduled, channels
		c.take(was)
		if !c.SendAt.After(now) {
			c.begin(now)
		}
		return nil
	})
}

func (c *Campaign) begin(now time.Time) {
	c.State, c.Detail, c.FinishedAt = Running, "", time.Time{}
	if c.StartedAt.IsZero() {
		c.StartedAt = now
	}
}

// Pause stops a campaign's sending. It waits for the answers to requests under way and sends no more.
func (s *Service) Pause(ctx context.Context, app, id string) (*View, error) {
	return s.change(ctx, app, id, func(c *Campaign) error {
		switch c.State {
		case Running, Scheduled:
			c.State, c.Detail = Paused, ""
		case Paused:
		default:
			return &StateError{Action: "be paused", State: c.State}
		}
		return nil
	})
}

// Resume continues a paused campaign. It tries channels again whose credential was refused.
func (s *Service) Resume(ctx context.Context, app, id string) (*View, error) {
	now := s.cfg.Now().Truncate(time.Millisecond)
	was, err := s.current(ctx, app, id)
	if err != nil {
		return nil, err
	}
	s.dispatch.Unblock(app)
	return s.change(ctx, app, id, func(c *Campaign) error {
		switch {
		case c.State == Running:
		case c.State == Paused && c.StartedAt.IsZero() && c.SendAt.After(now):
			c.State, c.Detail = Scheduled, ""
		case c.State == Paused:
			c.take(was)
			c.begin(now)
		default:
			return &StateError{Action: "be resumed", State: c.State}
		}
		return nil
	})
}

// Cancel ends a campaign: pending deliveries become suppressed. Sent messages stay; Recall withdraws them.
func (s *Service) Cancel(ctx context.Context, app, id string) (*View, error) {
	now := s.cfg.Now().Truncate(time.Millisecond)
	v, err := s.change(ctx, app, id, func(c *Campaign) error {
		switch c.State {
		case Draft, Scheduled, Running, Paused:
			c.State, c.Detail, c.FinishedAt = Cancelled, "", now
		case Cancelled:
		default:
			return &StateError{Action: "be cancelled", State: c.State}
		}
		return nil
	})
	return v, err
}

// Recall withdraws accepted messages, on channels that support it, and suppresses pending ones.
func (s *Service) Recall(ctx context.Context, app, id string) (*View, error) {
	return s.change(ctx, app, id, func(c *Campaign) error {
		switch c.State {
		case Running, Paused, Completed, Cancelled, Failed, Correcting:
			c.RecallFrom, c.State, c.Detail, c.FinishedAt, c.Recall = c.State, Recalling, "", time.Time{}, 0
		case Recalling:
		case RecallDone: // again: recalls that failed for a temporary reason may succeed now
			c.State, c.FinishedAt, c.Recall = Recalling, time.Time{}, 0
		default:
			return &StateError{Action: "be recalled", State: c.State, Hint: "nothing was sent; cancel it"}
		}
		return nil
	})
}

// RetryUnknown sends messages with an unknown outcome again, and returns their number. The caller has decided that duplicates are better
// than losses.
func (s *Service) RetryUnknown(ctx context.Context, app, id string) (n int64, err error) {
	now := s.cfg.Now().Truncate(time.Millisecond)
	c, err := s.store.Get(ctx, app, id)
	if err != nil {
		return 0, err
	}
	if c.State != Running && c.State != Paused && c.State != Completed {
		return 0, &StateError{Action: "send unknown ones again", State: c.State}
	}
	if !c.Spec.Expires.IsZero() && !now.Before(c.Spec.Expires) {
		return 0, notification.BadField("expires_at", "the campaign's time is over")
	}
	for {
		m, err := s.store.Sweep(ctx, c.Num, Sweep{From: Unknown, To: Pending, Due: now}, slice, now)
		n += int64(m)
		if err != nil {
			return n, err
		}
		if m == 0 {
			break
		}
	}
	if n == 0 {
		return 0, nil
	}
	_, err = s.change(ctx, app, id, func(c *Campaign) error {
		if c.State == Completed {
			c.begin(now)
		}
		return nil
	})
	return n, err
}

// Delete removes a campaign of the revision that must demands, and its report. It fails if the campaign may still have work.
func (s *Service) Delete(ctx context.Context, app, id string, must setting.Match) error {
	c, err := s.store.Change(ctx, app, id, func(c *Campaign) error {
		if c.State == Draft { // nobody starts or changes it from now on
			c.State, c.FinishedAt = Cancelled, s.cfg.Now().Truncate(time.Millisecond)
		}
		return must.Check("campaign "+c.ID, c.Revision())
	})
	if err != nil {
		return err
	}
	switch {
	case c.Ended():
	case c.State == Recalling || c.State == Correcting:
		return &StateError{Action: "be deleted", State: c.State, Hint: "try again when that is done"}
	default:
		return &StateError{Action: "be deleted", State: c.State, Hint: "cancel it first"}
	}
	s.mu.Lock()
	busy := s.tasks[c.Num] != nil
	s.mu.Unlock()
	if busy {
		return &StateError{Action: "be deleted", State: c.State, Hint: "it is still being wound up; try again in a moment"}
	}
	for {
		done, err := s.store.Remove(ctx, c.Num, slice)
		if err != nil {
			return fmt.Errorf("delete campaign %s: %w", id, err)
		}
		if done {
			return nil
		}
	}
}
