package source

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"slices"
	"sync"
	"time"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/cluster/lease"
	"godwit.dev/godwit/internal/cluster/reload"
)

// Config are the parts that sources need. To set sources up, only the store and the log are needed.
type Config struct {
	Store     Store
	Publisher Publisher
	Open      Opener
	// Own decides which server reads a source. Nil: this one is the only one.
	Own          lease.Func
	Now          func() time.Time // the stores' clock; nil: time.Now
	AllowPrivate bool             // sources that were set over the API may lead to private addresses, too
	Log          *slog.Logger
}

// Service reads the sources that this server owns, and shows and changes all.
type Service struct {
	cfg    Config
	totals totals

	loading sync.Mutex // one reload or change at a time

	mu      sync.Mutex
	life    context.Context // Run's; nil: not running
	sources map[name]Source
	readers map[name]*reader // of what is to be read; also where another server does
}

type name struct{ app, kind string }

// New loads the sources. They are read while Run runs.
func New(ctx context.Context, cfg Config) (*Service, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	s := &Service{cfg: cfg, readers: make(map[name]*reader)}
	return s, s.load(ctx)
}

func (s *Service) load(ctx context.Context) error {
	list, err := s.cfg.Store.All(ctx)
	if err != nil {
		return fmt.Errorf("load sources: %w", err)
	}
	sources := make(map[name]Source, len(list))
	for i := range list {
		sources[name{list[i].App, list[i].Kind}] = list[i]
	}
	s.mu.Lock()
	s.sources = sources
	s.mu.Unlock()
	return nil
}

// Run reads the sources until ctx ends. Its error is always nil: what cannot be read is tried again.
func (s *Service) Run(ctx context.Context) error {
	s.begin(ctx)
	_ = reload.Store(ctx, "sources", s.cfg.Store.Watch, s.reload, s.cfg.Log) // its error is always nil
	s.end()
	return nil
}

// begin starts what is to be read.
func (s *Service) begin(ctx context.Context) {
	s.loading.Lock()
	defer s.loading.Unlock()
	s.mu.Lock()
	s.life = ctx
	s.mu.Unlock()
	s.adjust()
}

// end ends all that is read.
func (s *Service) end() {
	s.loading.Lock()
	defer s.loading.Unlock()
	s.mu.Lock()
	s.life = nil
	s.mu.Unlock()
	s.adjust()
}

// reload reads the settings, and has what runs be as they are.
func (s *Service) reload(ctx context.Context) error {
	s.loading.Lock()
	defer s.loading.Unlock()
	if err := s.load(ctx); err != nil {
		return err
	}
	s.adjust()
	return nil
}

// adjust ends the readers whose settings have changed and starts those that are missing. Under loading.
func (s *Service) adjust() {
	var over, begin []*reader
	s.mu.Lock()
	life := s.life
	for n, r := range s.readers {
		if now, ok := s.sources[n]; life == nil || !ok || !now.same(&r.source) {
			over = append(over, r)
			delete(s.readers, n)
		}
	}
	for n, one := range s.sources {
		if life != nil && one.Enabled && s.readers[n] == nil {
			r := &reader{s: s, source: one, log: s.cfg.Log.With("app", one.App, "source", one.Kind)}
			s.readers[n] = r
			begin = append(begin, r)
		}
	}
	s.mu.Unlock()
	var wg sync.WaitGroup
	for _, r := range over {
		wg.Go(r.release)
	}
	wg.Wait()
	owns := s.cfg.Own
	if owns == nil {
		owns = lease.Alone(life)
	}
	for _, r := range begin {
		r.release = owns(r.source.Kind+"/"+r.source.App, r.run)
	}
}

// List shows an app's sources.
func (s *Service) List(app string) []Info {
	infos := []Info{}
	s.mu.Lock()
	defer s.mu.Unlock()
	for n, one := range s.sources {
		if n.app == app {
			infos = append(infos, s.show(one))
		}
	}
	slices.SortFunc(infos, func(a, b Info) int { return cmp.Compare(a.Kind, b.Kind) })
	return infos
}

// Get shows one of an app's sources.
func (s *Service) Get(app, kind string) (Info, error) {
	if err := known(kind); err != nil {
		return Info{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	one, ok := s.sources[name{app, kind}]
	if !ok {
		return Info{}, fmt.Errorf("source %s: %w", kind, ErrNone)
	}
	return s.show(one), nil
}

func known(kind string) error {
	if kind != RedisStream {
		return fmt.Errorf("%w: %.64q; there is %s", ErrUnknown, kind, RedisStream)
	}
	return nil
}

// show says how a source fares. Under mu.
func (s *Service) show(one Source) Info {
	one.URLs, one.Recipients = slices.Clone(one.URLs), slices.Clone(one.Recipients)
	info := Info{Source: one, State: Waiting}
	r := s.readers[name{one.App, one.Kind}]
	switch {
	case !one.Enabled:
		info.State = Disabled
	case r != nil:
		r.show(&info)
	}
	return info
}

// Set makes or changes a source. URLs and recipients are replaced; a password stays unless the change has one.
func (s *Service) Set(ctx context.Context, app, kind string, c Change) (info Info, created bool, err error) {
	if err := known(kind); err != nil {
		return Info{}, false, err
	}
	if err := c.check(); err != nil {
		return Info{}, false, err
	}
	err = s.cfg.Store.Update(ctx, app, kind, func(one *Source, _ int) error {
		now := s.cfg.Now().UTC().Truncate(time.Millisecond)
		if created = one.CreatedAt.IsZero(); created {
			*one = Source{App: one.App, Kind: one.Kind, Enabled: true, CreatedAt: now}
		}
		one.Private = c.Private || one.Private && slices.Equal(c.URLs, one.URLs)
		one.URLs, one.Recipients, one.UpdatedAt = c.URLs, c.Recipients, now
		if c.Password != nil {
			one.Password = *c.Password
		}
		if c.Enabled != nil {
			one.Enabled = *c.Enabled
		}
		return nil
	})
	if err != nil {
		return Info{}, false, fmt.Errorf("set source %s of app %s: %w", kind, app, err)
	}
	s.cfg.Log.InfoContext(ctx, "source set", "app", app, "source", kind)
	if err := s.reload(ctx); err != nil {
		return Info{}, created, err
	}
	info, err = s.Get(app, kind)
	return info, created, err
}

// Delete ends a source and forgets its settings. Entries that it has not taken stay in the stream.
func (s *Service) Delete(ctx context.Context, app, kind string) error {
	if err := known(kind); err != nil {
		return err
	}
	found, err := s.cfg.Store.Delete(ctx, app, kind)
	if err != nil {
		return fmt.Errorf("delete source %s of app %s: %w", kind, app, err)
	}
	if !found {
		return fmt.Errorf("delete source %s of app %s: %w", kind, app, ErrNone)
	}
	s.cfg.Log.InfoContext(ctx, "source deleted", "app", app, "source", kind)
	return s.reload(ctx)
}

// target is where a source leads, password included.
func (s *Service) target(one *Source) Target {
	t := Target{Recipients: one.Recipients, Private: one.Private || s.cfg.AllowPrivate}
	for _, raw := range one.URLs {
		t.URLs = append(t.URLs, withPassword(raw, one.Password))
	}
	return t
}

// withPassword puts the password into the URL of a Redis, as its clients take it.
func withPassword(raw string, password access.Secret) string {
	u, err := url.Parse(raw)
	if err != nil || password == "" { // it was read when it was set
		return raw
	}
	u.User = url.UserPassword(u.User.Username(), string(password))
	return u.String()
}

// all lists the readers of this server.
func (s *Service) all() []*reader {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.readers))
}
