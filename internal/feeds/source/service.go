package source

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"godwit.dev/godwit/internal/access/urlguard"
	"godwit.dev/godwit/internal/cluster/lease"
	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/foreign"
)

// Config holds the parts that sources need. To set sources up, only the stores and the log are needed.
type Config struct {
	Store     Store
	Publisher Publisher
	Objects   Objects
	Topics    Topics
	Records   Records
	// Read reads an entry's JSON. Its errors say what is wrong with it.
	Read  func(body []byte) ([]Entry, error)
	Kinds map[string]Kind
	// Own decides which server reads a source. Nil: this server is the only one.
	Own     lease.Func
	Now     func() time.Time // the stores' clock; nil: time.Now
	Targets urlguard.Targets // to which sources may lead that no operator has set
	Log     *slog.Logger
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
			return one.place(), one.Enabled
		},
		Changed: func(one *Source) time.Time { return one.UpdatedAt },
		Same:    func(a, b *Source) bool { return a.same(b) },
		Start: func(one Source) *reader {
			return &reader{s: s, source: one, log: cfg.Log.With("app", one.App, "source", one.Name)}
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
func (s *Service) Get(app, name string) (Info, error) {
	one, err := s.sources.Get(setting.Place{App: app, Name: name})
	if err != nil {
		return Info{}, err
	}
	return s.show(one), nil
}

// KindOf returns the kind of an app's source. For a source that does not exist it is the kind that a change names, or else the source's name.
func (s *Service) KindOf(app, name, named string) string {
	if one, err := s.sources.Get(setting.Place{App: app, Name: name}); err == nil {
		return one.Kind
	}
	if named != "" {
		return named
	}
	return name
}

// Kinds lists the kinds of sources that there are.
func (s *Service) Kinds() []string { return slices.Sorted(maps.Keys(s.cfg.Kinds)) }

// Previews reports whether sources of a kind have a preview.
func (s *Service) Previews(kind string) bool {
	_, previews := s.cfg.Kinds[kind].(Previewer)
	return previews
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
	info.Previews = s.Previews(one.Kind)
	r := s.sources.Runner(one.place())
	switch {
	case !one.Enabled:
		info.State = Paused
	case r != nil:
		r.show(&info)
	}
	return info
}

// target returns how a source is reached.
func (s *Service) target(one *Source) Target {
	return Target{App: one.App, Name: one.Name, Values: one.Values, Targets: one.targets(s.cfg.Targets), Log: s.cfg.Log, Now: s.cfg.Now}
}

// settle returns the kind of a source that is made or changed, and tidies the values of the change.
func (s *Service) settle(app, name string, c Change) (kind string, k Kind, err error) {
	if err := notification.CheckName("name", name); err != nil {
		return "", nil, err
	}
	kind = s.KindOf(app, name, c.Kind)
	if k, err = s.kind(kind); err != nil {
		return "", nil, err
	}
	if c.Kind != "" && c.Kind != kind {
		return "", nil, notification.BadField("kind", "the source %s is of the kind %s; delete it to make another of its name", name, kind)
	}
	if t, ok := k.(setting.Tidier); ok && c.Values != nil {
		t.Tidy(c.Values)
	}
	return kind, k, nil
}

// Set makes or changes a source.
func (s *Service) Set(ctx context.Context, app, name string, c Change) (info Info, created bool, err error) {
	kind, k, err := s.settle(app, name, c)
	if err != nil {
		return Info{}, false, err
	}
	if c.Values != nil {
		if err := k.Check(c.Values); err != nil {
			return Info{}, false, err
		}
	}
	full, all := len(s.sources.List(app)) >= MaxSources, s.sources.All()
	err = s.sources.Update(ctx, setting.Place{App: app, Name: name}, c.Must, func(one *Source) error {
		now := setting.After(one.UpdatedAt, s.cfg.Now())
		if created = one.CreatedAt.IsZero(); created {
			if full {
				return notification.BadField("name", "the app has %d sources, as many as it may have", MaxSources)
			}
			*one = Source{App: one.App, Name: name, Kind: kind, Enabled: true, CreatedAt: now}
		}
		values := one.Values
		if c.Values != nil {
			values = one.Values.Merge(c.Values, k.Fields())
		}
		if err := setting.CheckKept(k, one.Values, c.Values, values); err != nil {
			return err
		}
		if c.Values != nil || c.Enabled == nil || *c.Enabled { // one of two may always be paused
			if err := alone(k, kind, setting.Place{App: app, Name: name}, values, all); err != nil {
				return err
			}
		}
		one.Private = c.Private || one.Private && values.Lead(one.Values, k.Fields())
		one.Values, one.UpdatedAt = values, now
		if c.Enabled != nil {
			one.Enabled = *c.Enabled
		}
		if c.Resync {
			one.ResyncAt = now
		}
		return nil
	})
	if err != nil {
		return Info{}, false, err
	}
	info, err = s.Get(app, name)
	return info, created, err
}

// alone refuses what another source reads.
func alone(k Kind, kind string, at setting.Place, v setting.Values, all []Source) error {
	sole, ok := k.(Sole)
	if !ok {
		return nil
	}
	reads := sole.Reads(at, v)
	for i := range all {
		other := &all[i]
		switch {
		case other.Kind != kind || other.place() == at || sole.Reads(other.place(), other.Values) != reads:
		case other.App == at.App:
			return notification.BadField("name", "the source %s already reads the same: %s. Two would take entries from each other, or send them twice; change or delete that one, or let this one read something else", other.Name, sole.What(at, v))
		default:
			return notification.BadField("name", "a source of another app already reads the same: %s. Two would take entries from each other; let this one read something else", sole.What(at, v))
		}
	}
	return nil
}

// removeTime limits the time for removing what a deleted source has at its server.
const removeTime = 10 * time.Second

// Delete ends a source that matches, and deletes its settings. Entries that it has not taken stay at the source. left says what could not be removed there,
// such as a replication slot; empty: nothing is left.
func (s *Service) Delete(ctx context.Context, app, name string, must setting.Match) (left string, err error) {
	at := setting.Place{App: app, Name: name}
	one, err := s.sources.Get(at)
	if err != nil {
		return "", err
	}
	if err := s.sources.Delete(ctx, at, must); err != nil {
		return "", err
	}
	if r, ok := s.cfg.Kinds[one.Kind].(Remover); ok {
		ctx, cancel := context.WithTimeout(ctx, removeTime)
		defer cancel()
		to := s.target(&one)
		if to.Position, err = s.feedPosition(ctx, &one); err == nil {
			err = r.Remove(ctx, to)
		}
		if err != nil {
			left = foreign.Excerpt(err.Error(), s.secrets(&one)...)
			s.cfg.Log.WarnContext(ctx, "a deleted source left something at its server", "app", app, "source", name, "error", left)
		}
	}
	return left, s.cfg.Records.Forget(ctx, at, true)
}

// feedPosition returns what a source's feed has noted; nil: nothing.
func (s *Service) feedPosition(ctx context.Context, one *Source) ([]byte, error) {
	p, err := s.position(ctx, one)
	if err != nil || !p.Made.Equal(one.CreatedAt) {
		return nil, err
	}
	return p.Feed, nil
}

// position returns what is kept under the name of a source. It may be of another one that had the name before.
func (s *Service) position(ctx context.Context, one *Source) (p position, err error) {
	text, err := s.cfg.Records.Position(ctx, one.place())
	if err != nil || len(text) == 0 {
		return p, err
	}
	if err := json.Unmarshal(text, &p); err != nil {
		return p, fmt.Errorf("position of source %s is damaged: %w", one.Name, err)
	}
	return p, nil
}

// Quarantine returns entries in quarantine of a source, newest first, below a number. Zero: from the newest.
func (s *Service) Quarantine(ctx context.Context, app, name string, below int64, limit int) ([]SetAside, error) {
	at := setting.Place{App: app, Name: name}
	if _, err := s.sources.Get(at); err != nil {
		return nil, err
	}
	return s.cfg.Records.Quarantine(ctx, at, below, limit)
}

// EmptyQuarantine deletes the entries in quarantine of a source.
func (s *Service) EmptyQuarantine(ctx context.Context, app, name string) error {
	at := setting.Place{App: app, Name: name}
	if _, err := s.sources.Get(at); err != nil {
		return err
	}
	return s.cfg.Records.Forget(ctx, at, false)
}

// secrets returns a source's secrets, which no error may show.
func (s *Service) secrets(one *Source) []string {
	fields, _ := s.Fields(one.Kind) // a source of an unknown kind is never read
	return one.secrets(fields)
}

func (s *Source) secrets(fields []setting.Field) (list []string) {
	for _, name := range s.Values.Look(fields).Credentials {
		list = append(list, s.Values.Text(name))
	}
	return list
}
