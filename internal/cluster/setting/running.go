package setting

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"godwit.dev/godwit/internal/cluster/lease"
	"godwit.dev/godwit/internal/cluster/reload"
)

// Place is where settings belong.
type Place struct{ App, Name string }

// Runner is the work that enabled settings cause.
type Runner interface {
	// Run works until ctx ends. held is as in lease.Func.
	Run(ctx context.Context, held func() bool)
}

// Config describes the settings and the work that they cause.
type Config[T any, R Runner] struct {
	What  string // in words: sink
	Store Store[T]
	Place func(*T) (at Place, enabled bool)
	// Changed returns when settings were last changed; the zero time: they do not exist yet.
	Changed func(*T) time.Time
	Same    func(a, b *T) bool // reports whether the work need not restart when a becomes b
	Start   func(T) R
	None    error      // error of calls for settings that do not exist
	Own     lease.Func // nil: there is only this server
	Log     *slog.Logger
}

// Running keeps a copy of all settings up to date with the store, and makes the owner of each work run it accordingly.
type Running[T any, R Runner] struct {
	cfg Config[T, R]

	loading sync.Mutex // held during a reload or change, so that only one runs at a time

	mu    sync.Mutex
	life  context.Context // Run's; nil: not running
	all   map[Place]T
	works map[Place]*work[T, R] // of enabled settings, including those whose work another server runs
}

type work[T any, R Runner] struct {
	of      T
	runner  R
	release func() // under loading
}

// NewRunning loads the settings. Their work begins with Run.
func NewRunning[T any, R Runner](ctx context.Context, cfg Config[T, R]) (*Running[T, R], error) {
	s := &Running[T, R]{cfg: cfg, works: make(map[Place]*work[T, R])}
	return s, s.load(ctx)
}

func (s *Running[T, R]) load(ctx context.Context) error {
	list, err := s.cfg.Store.All(ctx)
	if err != nil {
		return fmt.Errorf("load %ss: %w", s.cfg.What, err)
	}
	all := make(map[Place]T, len(list))
	for i := range list {
		at, _ := s.cfg.Place(&list[i])
		all[at] = list[i]
	}
	s.mu.Lock()
	s.all = all
	s.mu.Unlock()
	return nil
}

// Run runs the work until ctx ends. Its error is always nil: failed attempts are repeated.
func (s *Running[T, R]) Run(ctx context.Context) error {
	s.live(ctx)
	_ = reload.Store(ctx, s.cfg.What+"s", s.cfg.Store.Watch, s.reload, s.cfg.Log) // its error is always nil
	s.live(nil)                                                                   //nolint:staticcheck // it runs no more
	return nil
}

func (s *Running[T, R]) live(ctx context.Context) {
	s.loading.Lock()
	defer s.loading.Unlock()
	s.mu.Lock()
	s.life = ctx
	s.mu.Unlock()
	s.adjust()
}

// reload reads the settings and adjusts the work to them.
func (s *Running[T, R]) reload(ctx context.Context) error {
	s.loading.Lock()
	defer s.loading.Unlock()
	if err := s.load(ctx); err != nil {
		return err
	}
	s.adjust()
	return nil
}

// adjust ends work whose settings have changed or are gone, and starts missing work. s.loading is held.
func (s *Running[T, R]) adjust() {
	var over []*work[T, R]
	begin := make(map[Place]*work[T, R])
	s.mu.Lock()
	life := s.life
	for at, w := range s.works {
		if now, ok := s.all[at]; life == nil || !ok || !s.cfg.Same(&now, &w.of) {
			over = append(over, w)
			delete(s.works, at)
		}
	}
	for at, one := range s.all {
		if _, enabled := s.cfg.Place(&one); life != nil && enabled && s.works[at] == nil {
			begin[at] = &work[T, R]{of: one, runner: s.cfg.Start(one)}
			s.works[at] = begin[at]
		}
	}
	s.mu.Unlock()
	var wg sync.WaitGroup
	for _, w := range over {
		wg.Go(w.release)
	}
	wg.Wait()
	own := s.cfg.Own
	if own == nil {
		own = lease.Alone(life)
	}
	for at, w := range begin {
		w.release = own(at.Name+"/"+at.App, w.runner.Run)
	}
}

// List returns an app's settings, ordered by name.
func (s *Running[T, R]) List(app string) (list []T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	places := slices.SortedFunc(maps.Keys(s.all), func(a, b Place) int { return cmp.Compare(a.Name, b.Name) })
	for _, at := range places {
		if at.App == app {
			list = append(list, s.all[at])
		}
	}
	return list
}

// All returns the settings of all apps.
func (s *Running[T, R]) All() []T {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.all))
}

// Get returns settings.
func (s *Running[T, R]) Get(at Place) (T, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one, ok := s.all[at]
	if !ok {
		return one, fmt.Errorf("%s %s: %w", s.cfg.What, at.Name, s.cfg.None)
	}
	return one, nil
}

// Runner returns the work of enabled settings while Run runs, even if another server owns the work; otherwise the zero value.
func (s *Running[T, R]) Runner(at Place) (r R) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.works[at]; w != nil {
		return w.runner
	}
	return r
}

// Runners lists all work.
func (s *Running[T, R]) Runners() (list []R) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.works {
		list = append(list, w.runner)
	}
	return list
}

// Update creates or changes settings that match, as Store.Update does, and adjusts the work.
func (s *Running[T, R]) Update(ctx context.Context, at Place, must Match, change func(one *T) error) error {
	err := s.cfg.Store.Update(ctx, at.App, at.Name, func(one *T, _ int) error {
		if err := s.check(must, at, one); err != nil {
			return err
		}
		return change(one)
	})
	if err != nil {
		return fmt.Errorf("set %s %s of app %s: %w", s.cfg.What, at.Name, at.App, err)
	}
	s.cfg.Log.InfoContext(ctx, s.cfg.What+" set", "app", at.App, s.cfg.What, at.Name) //nolint:sloglint // one message a kind
	return s.reload(ctx)
}

func (s *Running[T, R]) check(must Match, at Place, one *T) error {
	return must.Check(s.cfg.What+" "+at.Name, RevisionAt(s.cfg.Changed(one)))
}

// Delete ends the work and deletes its settings, if they match.
func (s *Running[T, R]) Delete(ctx context.Context, at Place, must Match) error {
	found, err := s.cfg.Store.Delete(ctx, at.App, at.Name, func(one *T) error { return s.check(must, at, one) })
	if err == nil && !found {
		err = s.cfg.None
	}
	if err != nil {
		return fmt.Errorf("delete %s %s of app %s: %w", s.cfg.What, at.Name, at.App, err)
	}
	s.cfg.Log.InfoContext(ctx, s.cfg.What+" deleted", "app", at.App, s.cfg.What, at.Name) //nolint:sloglint // one message a kind
	return s.reload(ctx)
}
