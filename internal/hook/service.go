package hook

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"godwit.dev/godwit/internal/event"
	"godwit.dev/godwit/internal/follow"
	"godwit.dev/godwit/internal/notification"
)

const (
	maxHooks  = 32              // of an app; each is a goroutine and reads the log
	saveEvery = time.Second / 4 // progress that a crash may cost: those events come again
	saveFor   = 5 * time.Second // of the last progress, when the server stops
)

// Config are the parts that hooks need.
type Config struct {
	Store    Store
	Progress ProgressStore
	Events   event.Log
	Poster   Poster
	Log      *slog.Logger
}

// Service runs all hooks.
type Service struct {
	store    Store
	progress ProgressStore
	events   event.Log
	poster   Poster
	log      *slog.Logger

	accepted, refused atomic.Uint64 // posts

	loading sync.Mutex    // one reload or change of progress at a time
	dirty   chan struct{} // there is progress to save

	mu      sync.Mutex
	life    context.Context // of the runners; nil: not running
	runners map[key]*runner // also of hooks that are not running
	gone    [][2]string     // app and name whose progress is to be forgotten
}

type key struct{ app, name string }

// New loads the hooks. They run while Run does.
func New(ctx context.Context, cfg Config) (*Service, error) {
	s := &Service{
		store: cfg.Store, progress: cfg.Progress, events: cfg.Events, poster: cfg.Poster, log: cfg.Log, runners: make(map[key]*runner),
		dirty: make(chan struct{}, 1),
	}
	hooks, err := s.store.Hooks(ctx)
	if err != nil {
		return nil, fmt.Errorf("load hooks: %w", err)
	}
	saved, err := s.progress.HookProgress(ctx)
	if err != nil {
		return nil, fmt.Errorf("load progress of hooks: %w", err)
	}
	known := make(map[key]Progress, len(saved))
	for _, p := range saved {
		known[key{p.App, p.Name}] = p
	}
	for i := range hooks {
		k := key{hooks[i].App, hooks[i].Name}
		p, ok := known[k]
		if !ok {
			p = s.fresh(k)
		}
		s.runners[k] = s.newRunner(&hooks[i], p)
		delete(known, k)
	}
	for k := range known {
		s.gone = append(s.gone, [2]string{k.app, k.name})
	}
	return s, nil
}

// fresh is the progress of a new hook: it begins with what happens next.
func (s *Service) fresh(k key) Progress {
	return Progress{App: k.app, Name: k.name, Cursor: s.events.Last()}
}

func (s *Service) newRunner(h *Hook, p Progress) *runner {
	return &runner{s: s, hook: *h, p: p, dirty: true}
}

// Run runs the hooks until ctx ends. Its error is always nil: what cannot be read or saved is tried again.
func (s *Service) Run(ctx context.Context) error {
	s.mu.Lock()
	s.life = ctx
	for _, r := range s.runners {
		s.start(r)
	}
	s.mu.Unlock()
	var wg sync.WaitGroup
	wg.Go(func() { _ = follow.Store(ctx, "hooks", s.store.Watch, s.reload, s.log) }) // its error is always nil
	wg.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-s.dirty:
				pause(ctx, saveEvery)
				s.save(ctx)
			}
		}
	})
	<-ctx.Done()
	s.mu.Lock()
	s.life = nil
	running := make([]*runner, 0, len(s.runners))
	for _, r := range s.runners {
		running = append(running, r)
	}
	s.mu.Unlock()
	for _, r := range running {
		r.stop()
	}
	wg.Wait()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveFor)
	defer cancel()
	s.save(last)
	return nil
}

// touch says that there is progress to save.
func (s *Service) touch() {
	select {
	case s.dirty <- struct{}{}:
	default:
	}
}

// start starts a runner, under the lock, if its hook is to run.
func (s *Service) start(r *runner) {
	s.touch() // a new runner has progress to save
	if s.life == nil || !r.hook.Enabled || r.p.Paused != "" {
		return
	}
	ctx, cancel := context.WithCancel(s.life)
	r.cancel, r.done = cancel, make(chan struct{})
	go r.run(ctx)
}

// stop ends a runner and waits for it.
func (r *runner) stop() {
	if r.cancel != nil {
		r.cancel()
		<-r.done
	}
}

// reload compares the store with what runs, and stops and starts what differs.
func (s *Service) reload(ctx context.Context) error {
	s.loading.Lock()
	defer s.loading.Unlock()
	hooks, err := s.store.Hooks(ctx)
	if err != nil {
		return fmt.Errorf("load hooks: %w", err)
	}
	keep := make(map[key]bool, len(hooks))
	for i := range hooks {
		k := key{hooks[i].App, hooks[i].Name}
		keep[k] = true
		s.replace(k, &hooks[i], nil)
	}
	s.mu.Lock()
	var ended []*runner
	for k, r := range s.runners {
		if !keep[k] {
			ended = append(ended, r)
			delete(s.runners, k)
			s.gone = append(s.gone, [2]string{k.app, k.name})
			s.touch()
		}
	}
	s.mu.Unlock()
	for _, r := range ended {
		r.stop()
	}
	return nil
}

// replace makes a hook run as it is now. change alters its progress, which starts it anew; without one a hook that
// has not changed goes on.
func (s *Service) replace(k key, h *Hook, change func(*Progress)) {
	s.mu.Lock()
	old := s.runners[k]
	s.mu.Unlock()
	p := s.fresh(k)
	if old != nil {
		if change == nil && old.hook.equal(h) {
			return
		}
		old.stop()
		p = old.progress(nil)
	}
	if change != nil {
		change(&p)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.newRunner(h, p)
	s.runners[k] = r
	s.start(r)
}

// save writes what has changed.
func (s *Service) save(ctx context.Context) {
	s.mu.Lock()
	var list []Progress
	var taken []*runner
	for _, r := range s.runners {
		if p, dirty := r.take(); dirty {
			list, taken = append(list, p), append(taken, r)
		}
	}
	gone := s.gone
	s.gone = nil
	s.mu.Unlock()
	if len(list) == 0 && len(gone) == 0 {
		return
	}
	if err := s.progress.SaveHookProgress(ctx, list, gone); err != nil {
		s.log.WarnContext(ctx, "progress of hooks could not be saved; trying again", "error", err)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.gone = append(s.gone, gone...)
		for _, r := range taken {
			r.progress(func(*Progress) {})
		}
	}
}

// List shows an app's hooks by name.
func (s *Service) List(app string) []Info {
	s.mu.Lock()
	defer s.mu.Unlock()
	infos := []Info{}
	for k, r := range s.runners {
		if k.app == app {
			infos = append(infos, s.info(r))
		}
	}
	slices.SortFunc(infos, func(a, b Info) int { return cmp.Compare(a.Hook.Name, b.Hook.Name) })
	return infos
}

// Get shows one hook.
func (s *Service) Get(app, name string) (Info, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.runners[key{app, name}]; r != nil {
		return s.info(r), nil
	}
	return Info{}, fmt.Errorf("hook %.128q: %w", name, ErrUnknown)
}

func (s *Service) info(r *runner) Info {
	i := Info{Hook: r.hook, Progress: r.progress(nil), State: Active, Newest: s.events.Last()}
	switch {
	case !i.Enabled:
		i.State = Disabled
	case i.Paused != "":
		i.State = Paused
	case !i.Failing.IsZero():
		i.State = Failing
	}
	return i
}

// Set makes or changes a hook, and lets one that was paused go on. A secret that was made because there was none is
// returned this once. A new hook begins with what happens after this call.
func (s *Service) Set(ctx context.Context, app, name string, c Change) (info Info, created bool, made string, err error) {
	if err := notification.CheckName("name", name); err != nil {
		return Info{}, false, "", err
	}
	for _, t := range c.Types {
		if !slices.Contains(event.Types, t) {
			return Info{}, false, "", notification.BadField("types", "%.32q is not a type of event", t)
		}
	}
	s.loading.Lock()
	defer s.loading.Unlock()
	var now Hook
	err = s.store.UpdateHook(ctx, app, name, func(h *Hook, n int) error {
		made, created = "", h.CreatedAt.IsZero()
		if created && n >= maxHooks {
			return notification.BadField("name", "the app has %d hooks, which is the most", maxHooks)
		}
		h.UpdatedAt = time.Now().UTC().Truncate(time.Millisecond)
		if created {
			h.CreatedAt, h.Enabled = h.UpdatedAt, true
		}
		h.URL, h.Types = c.URL, slices.Compact(slices.Sorted(slices.Values(c.Types)))
		if c.Secrets != nil {
			h.Secrets = c.Secrets
		}
		if c.Enabled != nil {
			h.Enabled = *c.Enabled
		}
		if len(h.Secrets) == 0 {
			made = s.poster.NewSecret()
			h.Secrets = []string{made}
		}
		now = *h
		return s.poster.Check(h.URL, h.Secrets)
	})
	if err != nil {
		return Info{}, false, "", fmt.Errorf("set hook %s: %w", name, err)
	}
	s.log.InfoContext(ctx, "hook set", "app", app, "hook", name, "enabled", now.Enabled)
	s.replace(key{app, name}, &now, resume)
	s.save(ctx)
	info, err = s.Get(app, name)
	return info, created, made, err
}

// resume forgets failures.
func resume(p *Progress) {
	p.Paused, p.PausedAt, p.Failing, p.NextAt, p.Attempts, p.LastError = "", time.Time{}, time.Time{}, time.Time{}, 0, ""
}

// Delete ends a hook.
func (s *Service) Delete(ctx context.Context, app, name string) error {
	found, err := s.store.DeleteHook(ctx, app, name)
	if err != nil {
		return fmt.Errorf("delete hook %s: %w", name, err)
	}
	if !found {
		return fmt.Errorf("hook %.128q: %w", name, ErrUnknown)
	}
	s.log.InfoContext(ctx, "hook deleted", "app", app, "hook", name)
	return s.reload(ctx)
}

// Replay sends all events after one again, as far as the log still has them, with the ids that they had.
func (s *Service) Replay(ctx context.Context, app, name string, since uint64) (Info, error) {
	s.loading.Lock()
	defer s.loading.Unlock()
	s.mu.Lock()
	r := s.runners[key{app, name}]
	s.mu.Unlock()
	if r == nil {
		return Info{}, fmt.Errorf("hook %.128q: %w", name, ErrUnknown)
	}
	s.replace(key{app, name}, &r.hook, func(p *Progress) {
		resume(p)
		p.Cursor = min(since, s.events.Last())
	})
	s.log.InfoContext(ctx, "hook replays", "app", app, "hook", name, "since", since)
	s.save(ctx)
	return s.Get(app, name)
}
