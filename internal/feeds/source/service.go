package source

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"time"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/cluster/lease"
	"godwit.dev/godwit/internal/cluster/setting"
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
	cfg     Config
	totals  totals
	sources *setting.Running[Source, *reader]
}

// New loads the sources. They are read while Run runs.
func New(ctx context.Context, cfg Config) (s *Service, err error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	s = &Service{cfg: cfg}
	s.sources, err = setting.NewRunning(ctx, setting.Config[Source, *reader]{
		What: "source", Store: cfg.Store, None: ErrNone, Own: cfg.Own, Log: cfg.Log,
		Place: func(one *Source) (setting.Place, bool) {
			return setting.Place{App: one.App, Name: one.Kind}, one.Enabled
		},
		Same: func(a, b *Source) bool { return a.same(b) },
		Start: func(one Source) *reader {
			return &reader{s: s, source: one, log: cfg.Log.With("app", one.App, "source", one.Kind)}
		},
	})
	return s, err
}

// Run reads the sources until ctx ends. Its error is always nil: a lost source is read again.
func (s *Service) Run(ctx context.Context) error { return s.sources.Run(ctx) }

// List shows an app's sources.
func (s *Service) List(app string) []Info {
	infos := []Info{}
	for _, one := range s.sources.List(app) {
		infos = append(infos, s.show(one))
	}
	return infos
}

// Get shows one of an app's sources.
func (s *Service) Get(app, kind string) (Info, error) {
	if err := known(kind); err != nil {
		return Info{}, err
	}
	one, err := s.sources.Get(setting.Place{App: app, Name: kind})
	if err != nil {
		return Info{}, err
	}
	return s.show(one), nil
}

func known(kind string) error {
	if kind != RedisStream {
		return fmt.Errorf("%w: %.64q; there is %s", ErrUnknown, kind, RedisStream)
	}
	return nil
}

// show says how a source fares.
func (s *Service) show(one Source) Info {
	one.URLs, one.Recipients = slices.Clone(one.URLs), slices.Clone(one.Recipients)
	info := Info{Source: one, State: Waiting}
	r := s.sources.Runner(setting.Place{App: one.App, Name: one.Kind})
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
	err = s.sources.Update(ctx, setting.Place{App: app, Name: kind}, func(one *Source) error {
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
		return Info{}, false, err
	}
	info, err = s.Get(app, kind)
	return info, created, err
}

// Delete ends a source and forgets its settings. Entries that it has not taken stay in the stream.
func (s *Service) Delete(ctx context.Context, app, kind string) error {
	if err := known(kind); err != nil {
		return err
	}
	return s.sources.Delete(ctx, setting.Place{App: app, Name: kind})
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
