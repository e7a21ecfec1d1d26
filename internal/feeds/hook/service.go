package hook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"godwit.dev/godwit/internal/cluster/lease"
	"godwit.dev/godwit/internal/cluster/reload"
	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/engine/pause"
	"godwit.dev/godwit/internal/feeds/event"
	"godwit.dev/godwit/internal/notify/notification"
)

const (
	maxHooks  = 32              // most hooks of an app; each has a goroutine and reads the log
	saveEvery = time.Second / 4 // a crash loses at most the progress of this time; its events are posted again
	saveFor   = 5 * time.Second // time limit for saving progress when the server stops
	saveLost  = time.Second / 2 // time limit when another server takes over: it starts after linger, and ends before that server begins
	takeAgain = time.Second     // wait after an app's progress could not be taken over
)

// Config holds the parts that hooks need.
type Config struct {
	Store    Store
	Progress ProgressStore
	Events   event.Log
	Poster   Poster
	// Own decides which server posts an app's events. Nil: this server is the only one.
	Own    lease.Func
	Tracer Tracer           // nil: there is none
	Now    func() time.Time // the stores' clock; nil: time.Now
	Log    *slog.Logger
}

// Tracer follows single notifications.
type Tracer interface {
	// Posting is called when an attempt to post an event begins. It returns a function to call with the error when the attempt has ended,
	// or nil.
	Posting(app, recipient, id, hook, event string) (done func(error))
}

// Service runs the hooks of the apps that this server owns. It shows and changes the hooks of all apps.
type Service struct {
	cfg      Config
	store    Store
	progress ProgressStore
	events   event.Log
	poster   Poster
	now      func() time.Time
	log      *slog.Logger

	accepted, refused atomic.Uint64 // posts

	loading sync.Mutex    // serializes reloads and changes
	saving  chan struct{} // a token that is held while progress is written, so that an older state never replaces a newer one
	dirty   chan struct{} // there is progress to save

	mu    sync.Mutex
	life  context.Context            // Run's; nil: not running
	hooks map[string]map[string]Hook // by app and name, as last read
	stray map[string]bool            // apps that may have progress of deleted hooks
	apps  map[string]*owning         // apps that this server wants to own
}

// New loads the hooks. They run only while Run runs.
func New(ctx context.Context, cfg Config) (*Service, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	s := &Service{
		cfg: cfg, store: cfg.Store, progress: cfg.Progress, events: cfg.Events, poster: cfg.Poster, now: cfg.Now, log: cfg.Log,
		saving: make(chan struct{}, 1), dirty: make(chan struct{}, 1), stray: make(map[string]bool), apps: make(map[string]*owning),
	}
	saved, err := s.progress.HookProgress(ctx, "") // read before the hooks, so that the progress of a hook made in between is not deleted
	if err != nil {
		return nil, fmt.Errorf("load progress of hooks: %w", err)
	}
	if err := s.load(ctx); err != nil {
		return nil, err
	}
	for _, p := range saved {
		if _, ok := s.hooks[p.App][p.Name]; !ok {
			s.stray[p.App] = true
		}
	}
	return s, nil
}

// load reads the hooks.
func (s *Service) load(ctx context.Context) error {
	list, err := s.store.All(ctx)
	if err != nil {
		return fmt.Errorf("load hooks: %w", err)
	}
	hooks := make(map[string]map[string]Hook)
	for _, h := range list {
		if hooks[h.App] == nil {
			hooks[h.App] = make(map[string]Hook)
		}
		hooks[h.App][h.Name] = h
	}
	s.mu.Lock()
	s.hooks = hooks
	s.mu.Unlock()
	return nil
}

// Run runs the hooks until ctx ends. Its error is always nil: failed reads and saves are repeated.
func (s *Service) Run(ctx context.Context) error {
	s.loading.Lock()
	s.mu.Lock()
	s.life = ctx
	s.mu.Unlock()
	s.want()
	s.loading.Unlock()
	var wg sync.WaitGroup
	wg.Go(func() { _ = reload.Store(ctx, "hooks", s.store.Watch, s.reload, s.log) }) // its error is always nil
	wg.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-s.dirty:
				pause.For(ctx, saveEvery)
				s.save(ctx, s.owned()...)
			}
		}
	})
	<-ctx.Done()
	s.loading.Lock()
	s.mu.Lock()
	s.life = nil
	s.mu.Unlock()
	s.want()
	s.loading.Unlock()
	wg.Wait()
	return nil
}

// touch wakes the goroutine that saves progress.
func (s *Service) touch() {
	select {
	case s.dirty <- struct{}{}:
	default:
	}
}

// reload reads the hooks again and adjusts the runners to them.
func (s *Service) reload(ctx context.Context) error {
	s.loading.Lock()
	defer s.loading.Unlock()
	if err := s.load(ctx); err != nil {
		return err
	}
	for _, w := range s.owned() {
		w.adjust()
	}
	s.want()
	return nil
}

// put applies a hook's new settings.
func (s *Service) put(h *Hook) {
	s.mu.Lock()
	if s.hooks[h.App] == nil {
		s.hooks[h.App] = make(map[string]Hook)
	}
	s.hooks[h.App][h.Name] = *h
	o := s.apps[h.App]
	var w *owned
	if o != nil {
		w = o.now
	}
	s.mu.Unlock()
	if w != nil {
		w.adjust()
	}
	s.want()
}

// List returns an app's hooks, sorted by name.
func (s *Service) List(ctx context.Context, app string) ([]Info, error) {
	return s.show(ctx, app, s.current(ctx, app))
}

// Get shows one hook.
func (s *Service) Get(ctx context.Context, app, name string) (Info, error) {
	for _, h := range s.current(ctx, app) {
		if h.Name == name {
			list, err := s.show(ctx, app, []Hook{h})
			if err != nil {
				return Info{}, err
			}
			return list[0], nil
		}
	}
	return Info{}, unknown(name)
}

func unknown(name string) error { return fmt.Errorf("hook %.128q: %w", name, ErrUnknown) }

// current returns an app's hooks by name. If several servers can change them, it reads them from the store again; if that fails, it returns
// the hooks that were last read.
func (s *Service) current(ctx context.Context, app string) (list []Hook) {
	var err error
	if s.cfg.Own != nil {
		if list, err = s.store.All(ctx); err != nil {
			s.log.WarnContext(ctx, "hooks could not be read; those that were read before are shown", "app", app, "error", err)
		}
		list = slices.DeleteFunc(list, func(h Hook) bool { return h.App != app })
	}
	if s.cfg.Own == nil || err != nil {
		s.mu.Lock()
		list = slices.Collect(maps.Values(s.hooks[app]))
		s.mu.Unlock()
	}
	slices.SortFunc(list, func(a, b Hook) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// show returns the progress of an app's hooks: as this server has it if it posts their events, else as the posting server has saved it.
func (s *Service) show(ctx context.Context, app string, hooks []Hook) ([]Info, error) {
	come := make(map[string]Progress, len(hooks))
	if !s.known(app, come) {
		saved, err := s.progress.HookProgress(ctx, app)
		if err != nil {
			return nil, fmt.Errorf("read progress of hooks: %w", err)
		}
		for _, p := range saved {
			come[p.Name] = p
		}
	}
	infos := []Info{}
	for i := range hooks {
		var p *Progress
		if saved, ok := come[hooks[i].Name]; ok {
			p = &saved
		}
		infos = append(infos, s.info(&hooks[i], p))
	}
	return infos, nil
}

func (s *Service) info(h *Hook, p *Progress) Info {
	newest := s.events.Last()
	i := Info{Hook: *h, Progress: p.heed(h, newest), Newest: newest}
	i.State = state(&i.Hook, &i.Progress)
	return i
}

func state(h *Hook, p *Progress) State {
	switch {
	case !h.Enabled:
		return Disabled
	case p.Paused != "":
		return Paused
	case !p.Failing.IsZero():
		return Failing
	}
	return Active
}

// Set makes or changes a hook, and resumes a paused one. made is the secret that Set generated because the hook would have had none; only
// this call returns it. A new hook begins with the events after this call.
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
	newest := s.events.Last()
	err = s.store.Update(ctx, app, name, func(h *Hook, n int) error {
		if err := h.matches(c.Must); err != nil {
			return err
		}
		made, created = "", h.CreatedAt.IsZero()
		if created && n >= maxHooks {
			return notification.BadField("name", "the app has %d hooks, which is the most", maxHooks)
		}
		h.UpdatedAt = h.next(s.now())
		if created {
			h.CreatedAt, h.Enabled = h.UpdatedAt, true
			h.From, h.FromAt = newest, h.UpdatedAt
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
	s.put(&now)
	list, err := s.show(ctx, app, []Hook{now})
	if err != nil { // the change was made, and this answer is the only one that shows the secret
		s.log.WarnContext(ctx, "how far a hook has come could not be read", "app", app, "hook", name, "error", err)
		return s.info(&now, nil), created, made, nil
	}
	return list[0], created, made, nil
}

// Delete ends a hook that matches.
func (s *Service) Delete(ctx context.Context, app, name string, must setting.Match) error {
	found, err := s.store.Delete(ctx, app, name, func(h *Hook) error { return h.matches(must) })
	if err != nil {
		return fmt.Errorf("delete hook %s: %w", name, err)
	}
	if !found {
		return unknown(name)
	}
	s.log.InfoContext(ctx, "hook deleted", "app", app, "hook", name)
	return s.reload(ctx)
}

// Replay posts all events after since again, as far as the log still has them, with their original ids.
func (s *Service) Replay(ctx context.Context, app, name string, since uint64) (Info, error) {
	s.loading.Lock()
	defer s.loading.Unlock()
	var now Hook
	since = min(since, s.events.Last())
	err := s.store.Update(ctx, app, name, func(h *Hook, _ int) error {
		if h.CreatedAt.IsZero() {
			return unknown(name)
		}
		h.FromAt, h.From = h.next(s.now()), since
		now = *h
		return nil
	})
	if errors.Is(err, ErrUnknown) {
		return Info{}, unknown(name)
	}
	if err != nil {
		return Info{}, fmt.Errorf("replay to hook %s: %w", name, err)
	}
	s.log.InfoContext(ctx, "hook replays", "app", app, "hook", name, "since", since)
	s.put(&now)
	list, err := s.show(ctx, app, []Hook{now})
	if err != nil {
		return Info{}, err
	}
	return list[0], nil
}
