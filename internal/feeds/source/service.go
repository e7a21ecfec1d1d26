package source

import (
	"context"
	"log/slog"
	"time"

	"godwit.dev/godwit/internal/cluster/lease"
	"godwit.dev/godwit/internal/cluster/setting"
)

// Config holds the parts that sources need. To set sources up, only the store and the log are needed.
type Config struct {
	Store     Store
	Publisher Publisher
	Objects   Objects
	Kinds     map[string]Kind
	// Own decides which server reads a source. Nil: this server is the only one.
	Own          lease.Func
	Now          func() time.Time // the stores' clock; nil: time.Now
	AllowPrivate bool             // sources that were set over the API may also connect to private addresses
	Log          *slog.Logger
}

// Service reads the sources that this server owns. It shows and changes the sources of all apps.
type Service struct {
	cfg     Config
	totals  map[string]*totals // by kind
	sources *setting.Running[Source, *reader]
}

// New loads the sources. They are read only while Run runs.
func New(ctx context.Context, cfg Config) (s *Service, err error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	s = &Service{cfg: cfg, totals: make(map[string]*totals)}
	for name := range cfg.Kinds {
		s.totals[name] = &totals{}
	}
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

// Run reads the sources until ctx ends. Its error is always nil: after a lost connection, reading begins again.
func (s *Service) Run(ctx context.Context) error { return s.sources.Run(ctx) }

// List shows an app's sources.
func (s *Service) List(app string) []Info {
	infos := []Info{}
	for _, one := range s.sources.List(app) {
		infos = append(infos, s.show(one))
	}
	return infos
}

// Get returns one of an app's sources.
func (s *Service) Get(app, kind string) (Info, error) {
	if _, err := s.kind(kind); err != nil {
		return Info{}, err
	}
	one, err := s.sources.Get(setting.Place{App: app, Name: kind})
	if err != nil {
		return Info{}, err
	}
	return s.show(one), nil
}

// Fields returns the fields of a kind.
func (s *Service) Fields(kind string) ([]setting.Field, error) {
	k, err := s.kind(kind)
	if err != nil {
		return nil, err
	}
	return k.Fields(), nil
}

func (s *Service) kind(name string) (Kind, error) {
	return setting.KindOf(s.cfg.Kinds, name, ErrUnknown)
}

// show returns a source with its state.
func (s *Service) show(one Source) Info {
	fields, _ := s.Fields(one.Kind) // a kind that this version does not know has no fields
	info := Info{Source: one, View: one.Values.Look(fields), State: Waiting}
	r := s.sources.Runner(setting.Place{App: one.App, Name: one.Kind})
	switch {
	case !one.Enabled:
		info.State = Disabled
	case r != nil:
		r.show(&info)
	}
	return info
}

// Set makes or changes a source.
func (s *Service) Set(ctx context.Context, app, kind string, c Change) (info Info, created bool, err error) {
	k, err := s.kind(kind)
	if err != nil {
		return Info{}, false, err
	}
	if c.Values != nil {
		if err := k.Check(c.Values); err != nil {
			return Info{}, false, err
		}
	}
	err = s.sources.Update(ctx, setting.Place{App: app, Name: kind}, func(one *Source) error {
		now := s.cfg.Now().UTC().Truncate(time.Millisecond)
		if created = one.CreatedAt.IsZero(); created {
			*one = Source{App: one.App, Kind: one.Kind, Enabled: true, CreatedAt: now}
		}
		values := one.Values
		if c.Values != nil {
			values = one.Values.Merge(c.Values, k.Fields())
		}
		one.Private = c.Private || one.Private && values.Lead(one.Values, k.Fields())
		one.Values, one.UpdatedAt = values, now
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

// Delete ends a source and deletes its settings. Entries that it has not taken stay at the source.
func (s *Service) Delete(ctx context.Context, app, kind string) error {
	if _, err := s.kind(kind); err != nil {
		return err
	}
	return s.sources.Delete(ctx, setting.Place{App: app, Name: kind})
}
