package escalation

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"godwit.dev/godwit/internal/audience"
	"godwit.dev/godwit/internal/dispatch"
	"godwit.dev/godwit/internal/mailbox"
	"godwit.dev/godwit/internal/notification"
	"godwit.dev/godwit/internal/own"
	"godwit.dev/godwit/internal/preference"
	"godwit.dev/godwit/internal/push"
	"godwit.dev/godwit/internal/sealed"
)

const (
	// slice is how many steps are handed over together.
	slice = 500
	// lookEvery is how often it is looked for what nobody told of, lookShared for what is due where other servers store steps too.
	lookEvery  = 5 * time.Second
	lookShared = time.Second
	// leftEvery is how often it is looked for what other servers have ended and did not tell of.
	leftEvery = time.Minute
	// upkeepEvery is how often what has ended long ago is deleted.
	upkeepEvery = time.Minute
	// retryAfterFault is when work goes on after a store failed.
	retryAfterFault = time.Second
	// stopPatience is how long requests under way may take when the server stops.
	stopPatience = 4 * time.Second
	// mostTold is how many copies may wait for a look at who is online, or at what was sent of them. Of those beyond it the first step
	// comes at its time, what they were sent stays until it is opened, and no event says that nothing is left to be tried.
	mostTold = 10_000
)

// Mailbox is what is asked of the mailbox.
type Mailbox interface {
	Items(ctx context.Context, refs []mailbox.Ref) ([]*mailbox.Item, error)
	Online(ctx context.Context, app, recipient string) ([]string, error)
	AckCopies(ctx context.Context, acks []mailbox.CopyAck) (n int, err error)
}

// Endpoints are where a recipient can be reached.
type Endpoints interface {
	EndpointsOf(ctx context.Context, app, recipient string) ([]audience.Endpoint, error)
}

// Preferences are what recipients say about how they may be reached, and which steps have begun that limits count.
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
	Categories  func(app string) map[string]preference.Category // what an app says of its
	Store       Store
	Tokens      *sealed.Tokens
	Dispatch    *dispatch.Dispatcher
	Events      Events                 // nil: nobody is told
	Changed     func() <-chan struct{} // closed when channels are set up in another way
	Now         func() time.Time       // the store's clock
	Own         own.Func               // decides which server hands over and sends for an app, campaigns too. Nil: this one is the only one
	Retain      time.Duration          // how long what has ended can be seen
	Log         *slog.Logger
}

// Service has steps sent.
type Service struct {
	cfg     Config
	metrics *metrics
	wake    chan struct{}     // a step may be due, or something waits to be sent
	commits chan struct{}     // something was stored or settled here
	left    chan struct{}     // what ended may still be shown
	others  func(body []byte) // told; nil: there are no others

	released atomic.Bool // sends that nobody told of wait to be sent

	mu      sync.Mutex
	own     own.Func // nil: it does not run
	apps    map[string]*owning
	refused map[string]bool // apps of which a credential was refused here
	stored  []storedCopy    // committed just now: who is away gets the first step at once
	ended   []copyOf        // settled just now, or something of it was sent: see lookAtEnded
	looks   int             // of those, how many are being looked at
	soon    time.Time       // when a step is due of which the last look did not know; zero: there is none
	planned time.Time       // when it is looked next; zero: it is being looked
	news    news
	jobs    map[Place]*dispatch.Job
}

// storedCopy is one with steps, and when its first is due.
type storedCopy struct {
	mailbox.Ref
	at time.Time
}

// copyOf is a copy of a notification.
type copyOf struct {
	mailbox.Ref
	note string
}

// New makes a Service. Nothing is sent until Run.
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

// poke has somebody look who waits for it, or who comes by next.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// settled says that a copy has ended, here or elsewhere.
func (s *Service) settled(c copyOf) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.news.exhausted, c.Ref)
	if len(s.ended)+s.looks < mostTold {
		s.ended = append(s.ended, c)
	}
}

// sent says that something of a copy was sent, or need not be.
func (s *Service) sent(c copyOf) {
	s.mu.Lock()
	if len(s.ended)+s.looks < mostTold {
		s.ended = append(s.ended, c)
	}
	s.mu.Unlock()
	poke(s.wake)
}

// resending lists the channels whose unknown outcomes are sent again.
func resending() (chs []push.Channel) {
	for _, ch := range dispatch.Channels() {
		if dispatch.Resends(ch) {
			chs = append(chs, ch)
		}
	}
	return chs
}

// Run hurries the steps of what this server stores, and hands steps over and has them sent of the apps that it owns, until ctx ends.
// When it returns, nothing is being sent any more and every outcome that came is on disk.
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

// lookBy has it looked for steps at a time, or before. It costs nothing where that is planned already: most steps are due later.
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

// plan says in how long to look again, when it would be after so long.
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

// looking says that it is looked for what is due by now.
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
	var looked time.Time // for everything that waits, not only for what is due now
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

// step does what there is to do and says when to look again.
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

// hurry makes the first step due of what was just stored for recipients who are away. Who is online is asked others too, where
// there are several nodes; an answer that does not come leaves the step at its time. It returns which they are.
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

// handOver writes down what the steps that are due have to send, and then tells the mailbox.
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
			if st.done[i].Skipped { // nothing else will say that it has ended
				s.sent(copyOf{st.done[i].Ref, due[i].ID})
			}
		}
	}
}

// sends lists what a step sends: one to each endpoint of its channel, or one to nobody.
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

// send has what waits at a place sent, if this server owns the app.
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
	source := newSource(s, p)
	job, err := s.cfg.Dispatch.Job(dispatch.Work{App: p.App, Channels: []push.Channel{p.Channel}, Source: source, Urgent: true, Held: o.held, Log: s.cfg.Log})
	if err != nil {
		s.cfg.Log.ErrorContext(ctx, "steps of escalations cannot be sent", "app", p.App, "channel", string(p.Channel), "error", err)
		return
	}
	s.jobs[p] = job
	o.tasks.Go(func() {
		err := job.Run(o.ctx, o.hard)
		if err != nil && o.ctx.Err() == nil {
			s.failed(o, source, err)
		}
		s.mu.Lock()
		delete(s.jobs, p)
		s.mu.Unlock()
		// What was added while it ended.
		at, err := s.cfg.Store.NextSend(o.ctx, p)
		if o.ctx.Err() == nil && (err != nil || !at.IsZero()) {
			s.send(o.ctx, p)
		}
	})
}

// failed ends what cannot be sent because its channel cannot send at all, or waits a little after another fault.
func (s *Service) failed(o *owned, src *source, err error) {
	ctx := o.ctx
	s.cfg.Log.WarnContext(ctx, "steps of escalations cannot be sent", "app", src.place.App, "channel", string(src.place.Channel), "error", err)
	if errors.Is(err, ErrStale) { // or the database has lost that this one took over: it does so once more if it still may
		o.lose()
		return
	}
	var unable *dispatch.ChannelError
	if !errors.As(err, &unable) {
		dispatch.Wait(ctx, retryAfterFault)
		return
	}
	now := s.cfg.Now()
	for {
		ds, err := src.Due(ctx, src.place.Channel, now, slice)
		if err != nil {
			dispatch.Wait(ctx, retryAfterFault)
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
			dispatch.Wait(ctx, retryAfterFault)
			return
		}
	}
}

// upkeep lets refused channels be tried again when a person has changed them, and deletes what ended long ago.
func (s *Service) upkeep(ctx context.Context) {
	for !s.release(ctx) && dispatch.Wait(ctx, retryAfterFault) { // who starts a server has looked
	}
	tick := time.NewTicker(upkeepEvery)
	defer tick.Stop()
	for {
		changed := s.cfg.Changed()
		select {
		case <-ctx.Done():
			return
		case <-changed:
			s.release(ctx)
		case <-tick.C:
		}
		s.prune(ctx, func(now time.Time) (bool, error) {
			return s.cfg.Store.PruneSends(ctx, now.Add(-s.cfg.Retain), now, slice)
		})
		s.prune(ctx, func(now time.Time) (bool, error) { return s.cfg.Preferences.PruneBegun(ctx, now, slice) })
	}
}

// prune deletes slice after slice.
func (s *Service) prune(ctx context.Context, one func(now time.Time) (more bool, err error)) {
	for more := true; more && ctx.Err() == nil; {
		var err error
		if more, err = one(s.cfg.Now()); err != nil {
			s.cfg.Log.WarnContext(ctx, "old sends of escalations cannot be deleted", "error", err)
			return
		}
	}
}

// release lets what waits for a person be tried again, of all apps: who owns them may be the one that had it wait, or none. It does so twice: what a
// job looked at before its app was unblocked waits once more.
func (s *Service) release(ctx context.Context) (done bool) {
	done = true
	for range 2 {
		apps, err := s.cfg.Store.ReleaseSends(ctx, s.cfg.Now())
		if err != nil && ctx.Err() == nil {
			s.cfg.Log.WarnContext(ctx, "what waited for a channel to be set up cannot be released", "error", err)
			done = false
		}
		s.mu.Lock()
		for app := range s.refused { // another server may have been the first to release them
			apps = append(apps, app)
		}
		clear(s.refused)
		s.mu.Unlock()
		for _, app := range apps {
			s.cfg.Dispatch.Unblock(app)
		}
	}
	s.released.Store(true)
	poke(s.wake)
	return done
}

// wasRefused remembers that a credential of an app was.
func (s *Service) wasRefused(app string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused[app] = true
}

// SendsOf lists what was sent for a copy; see Store.
func (s *Service) SendsOf(ctx context.Context, app, note, recipient string) ([]Send, error) {
	return s.cfg.Store.SendsOf(ctx, app, note, recipient)
}

// StepsOf returns the plan of an open copy; see mailbox.Escalator.
func (s *Service) StepsOf(ctx context.Context, ref mailbox.Ref) (steps []notification.Step, next int, err error) {
	return s.cfg.Steps.StepsOf(ctx, ref)
}
