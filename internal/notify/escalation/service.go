package escalation

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/preference"
	"godwit.dev/godwit/internal/cluster/lease"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/dispatch"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/sending/sealed"
)

const (
	// slice is how many steps are handed over at once.
	slice = 500
	// lookEvery is the interval of searches for work that no message announced. lookShared is the interval of searches for due steps if
	// other servers store steps too.
	lookEvery  = 5 * time.Second
	lookShared = time.Second
	// leftEvery is the interval of searches for copies that other servers ended without a report.
	leftEvery = time.Minute
	// upkeepEvery is the interval at which old ended sends are deleted.
	upkeepEvery = time.Minute
	// retryAfterFault is the pause after an error of the store.
	retryAfterFault = time.Second
	// mostTold is how many copies may wait for a check of whether their recipients are online, or of their sends. For copies beyond it, the
	// first step is sent at its planned time, sent messages stay until they are opened, and no event reports an exhausted plan.
	mostTold = 10_000
)

// Mailbox is the part of the mailbox that this package uses.
type Mailbox interface {
	Items(ctx context.Context, refs []mailbox.Ref) ([]*mailbox.Item, error)
	Online(ctx context.Context, app, recipient string) ([]string, error)
	AckCopies(ctx context.Context, acks []mailbox.CopyAck) (n int, err error)
}

// Endpoints finds the endpoints of a recipient.
type Endpoints interface {
	EndpointsOf(ctx context.Context, app, recipient string) ([]audience.Endpoint, error)
}

// Preferences stores recipients' wishes about how they may be reached, and the begun steps that count against limits.
type Preferences interface {
	Preferences(ctx context.Context, app string, recipients []string) (map[string]preference.Preferences, error)
	Begin(ctx context.Context, app string, steps []preference.Begun, now time.Time) (may []bool, err error)
	PruneBegun(ctx context.Context, now time.Time, limit int) (more bool, err error)
}

// Config are the parts of a Service.
type Config struct {
	Steps       mailbox.Escalator
	Mailbox     Mailbox
	Endpoints   Endpoints
	Preferences Preferences
	Categories  func(app string) map[string]preference.Category // returns an app's settings for its categories
	Store       Store
	Tokens      *sealed.Tokens
	Dispatch    *dispatch.Dispatcher
	Events      Events                 // nil: nobody is told
	Changed     func() <-chan struct{} // closed when the settings of channels have changed
	Now         func() time.Time       // the store's clock
	Own         lease.Func             // decides which server hands over and sends for an app, campaigns included. Nil: this server is the only one
	Retain      time.Duration          // time for which ended sends are kept
	Log         *slog.Logger
}

// Service has steps sent.
type Service struct {
	cfg     Config
	metrics *metrics
	wake    chan struct{}     // a step may be due, or sends are waiting
	commits chan struct{}     // a copy was stored or settled here
	left    chan struct{}     // devices may still show messages of ended copies
	others  func(body []byte) // sends a message to the other servers; nil: there are none

	released atomic.Bool // sends that no message announced are waiting to be sent

	mu      sync.Mutex
	own     lease.Func // nil: it does not run
	apps    map[string]*owning
	refused map[string]bool // apps with a credential that a provider refused on this server
	stored  []storedCopy    // copies stored just now: if the recipient is offline, the first step is sent at once
	ended   []copyOf        // copies settled just now, or with a send that was just sent: see lookAtEnded
	looks   int             // how many ended copies are being checked
	soon    time.Time       // when the earliest step is due that was stored after the last query; zero: there is none
	planned time.Time       // time of the next query; zero: a query is running
	news    news
	jobs    map[Place]*dispatch.Job
}

// storedCopy is a newly stored copy with steps, and the time when its first step is due.
type storedCopy struct {
	mailbox.Ref
	at time.Time
}

// copyOf is a copy of a notification.
type copyOf struct {
	mailbox.Ref
	note string
}

// New makes a Service. It sends nothing before Run.
func New(cfg Config) *Service {
	return &Service{
		cfg: cfg, metrics: newMetrics(), wake: make(chan struct{}, 1), commits: make(chan struct{}, 1), left: make(chan struct{}, 1),
		apps: make(map[string]*owning), refused: make(map[string]bool), news: newNews(), jobs: make(map[Place]*dispatch.Job),
	}
}

var _ mailbox.Escalations = (*Service)(nil)

// Stored implements mailbox.Escalations.
func (s *Service) Stored(items []mailbox.Item) {
	s.mu.Lock()
	for i := range items {
		if it := &items[i]; it.Escalates && it.Seq != 0 && len(s.stored) < mostTold {
			s.stored = append(s.stored, storedCopy{mailbox.Ref{App: it.N.App, Recipient: it.Recipient, Pos: it.Pos}, it.N.Due().Add(it.N.Steps[0].After)})
		}
	}
	s.mu.Unlock()
	poke(s.commits)
}

// Settled implements mailbox.Escalations.
func (s *Service) Settled(done []mailbox.Settled) {
	for i := range done {
		if d := &done[i]; d.Escalates {
			s.settled(copyOf{mailbox.Ref{App: d.App, Recipient: d.Recipient, Pos: d.Pos}, d.ID})
		}
	}
	poke(s.commits)
}

// poke wakes the goroutine that waits on c, or the next one that will wait.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// settled records that a copy has ended, here or on another node.
func (s *Service) settled(c copyOf) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.news.exhausted, c.Ref)
	if len(s.ended)+s.looks < mostTold {
		s.ended = append(s.ended, c)
	}
}

// sent records that one of a copy's sends was sent, or will not be sent.
func (s *Service) sent(c copyOf) {
	s.mu.Lock()
	if len(s.ended)+s.looks < mostTold {
		s.ended = append(s.ended, c)
	}
	s.mu.Unlock()
	poke(s.wake)
}

// resending lists the channels on which sends with unknown outcomes are sent again.
func resending() (chs []push.Channel) {
	for _, ch := range push.Channels() {
		if dispatch.Resends(ch) {
			chs = append(chs, ch)
		}
	}
	return chs
}

// Run hurries the steps of copies that this server stores. For the apps that it owns, it hands over and sends steps, until ctx ends. When
// it returns, nothing is being sent any more and every outcome that a provider returned is on disk.
func (s *Service) Run(ctx context.Context) error {
	s.begin(ctx)
	defer s.end()
	var wg sync.WaitGroup
	wg.Go(func() { s.loop(ctx) })
	wg.Go(func() { s.upkeep(ctx) })
	wg.Go(func() { s.withdrawLeft(ctx) })
	defer wg.Wait()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.commits:
		}
		s.mu.Lock()
		stored := s.stored
		s.stored = nil
		s.mu.Unlock()
		for i := range stored {
			s.want(stored[i].App)
		}
		hurried := s.hurry(ctx, stored)
		s.tellDue(stored, hurried)
		s.tellEnded()
		s.lookAtEnded()
		for i := range stored {
			switch c := &stored[i]; {
			case s.shared() && !s.owns(c.App): // whoever does, or will, looks
			case hurried[c.Ref]:
				s.lookBy(s.cfg.Now())
			default:
				s.lookBy(c.at)
			}
		}
		if len(stored) == mostTold { // there may be more
			poke(s.wake)
		}
	}
}

// lookBy schedules a search for due steps at the time at, or earlier. It costs little if an earlier search is planned already, which is
// usual: most steps are due later.
func (s *Service) lookBy(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.soon.IsZero() || at.Before(s.soon) {
		s.soon = at
	}
	if !s.planned.IsZero() && at.Before(s.planned) {
		poke(s.wake)
	}
}

// plan returns the time until the next query, which is at most after.
func (s *Service) plan(after time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.cfg.Now()
	if !s.soon.IsZero() {
		after = min(after, max(s.soon.Sub(now), time.Millisecond))
	}
	s.planned = now.Add(after)
	return after
}

// looking records that a search for due steps begins now.
func (s *Service) looking() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.planned = time.Time{}
	if !s.soon.After(s.cfg.Now()) {
		s.soon = time.Time{}
	}
}

func (s *Service) loop(ctx context.Context) {
	look := time.NewTimer(0)
	defer look.Stop()
	var looked time.Time // time of the last search for all waiting steps, not only due ones
	for {
		all := s.released.Swap(false) || looked.IsZero() || time.Since(looked) >= lookEvery
		next, err := s.step(ctx, all)
		if all && err == nil {
			looked = time.Now()
		}
		if err != nil && ctx.Err() == nil {
			s.cfg.Log.WarnContext(ctx, "steps of escalations cannot be handed over yet", "error", err)
			next = retryAfterFault
		}
		look.Reset(s.plan(next))
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
		case <-look.C:
		}
	}
}

// step does the due work and returns the time until the next call.
func (s *Service) step(ctx context.Context, all bool) (time.Duration, error) {
	s.looking()
	at, err := s.handOver(ctx)
	if err != nil {
		return 0, err
	}
	if all {
		if err := s.discover(ctx); err != nil {
			return 0, err
		}
	}
	s.lookAtEnded()
	next := lookEvery
	if s.shared() {
		next = lookShared
	}
	if !at.IsZero() {
		next = min(next, max(at.Sub(s.cfg.Now()), time.Millisecond))
	}
	return next, nil
}

// SendsOf lists a copy's sends; see Store.
func (s *Service) SendsOf(ctx context.Context, app, note, recipient string) ([]Send, error) {
	return s.cfg.Store.SendsOf(ctx, app, note, recipient)
}

// StepsOf returns the plan of an open copy; see mailbox.Escalator.
func (s *Service) StepsOf(ctx context.Context, ref mailbox.Ref) (steps []notification.Step, next int, err error) {
	return s.cfg.Steps.StepsOf(ctx, ref)
}
