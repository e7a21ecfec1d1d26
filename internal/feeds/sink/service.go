package sink

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"godwit.dev/godwit/internal/access/urlguard"
	"godwit.dev/godwit/internal/cluster/lease"
	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/engine/pause"
	"godwit.dev/godwit/internal/feeds/event"
)

// takeNext is the wait before a sink is taken over again after its progress could not be saved.
const takeNext = 2 * time.Second

// State is a sink's condition in one word.
type State string

// States.
const (
	Writing  State = "writing"
	Failing  State = "failing"  // the next batch is refused; it is tried again
	Stopped  State = "stopped"  // the sink will refuse every batch as things are; setting the sink again resumes it
	Waiting  State = "waiting"  // another node writes to the sink, or none does yet
	Disabled State = "disabled" // switched off
)

// Info is a sink without its password, for display.
type Info struct {
	Sink
	setting.View
	Progress
	State  State
	Error  string    // why the sink fails or has stopped
	Since  time.Time // when it began to fail; zero: it does not fail, or this server does not know
	Newest uint64    // id of the newest event in the log, of any app, which shows how far the sink is behind
	Oldest time.Time // when the app's oldest event was emitted that the sink has not written; zero: there is none
}

// Config holds the parts that sinks need. To set sinks up, only the store and the log are needed.
type Config struct {
	Store    Store
	Progress ProgressStore
	Events   event.Log
	Past     Past // nil: events that the log has deleted go unnoticed
	Kinds    map[string]Kind
	Own      lease.Func       // which server writes to a sink; nil: this server is the only one
	Now      func() time.Time // the stores' clock; nil: time.Now
	Log      *slog.Logger

	Targets urlguard.Targets // to which sinks may lead that no operator has set
}

// Service writes to the sinks that this server owns. It shows and changes the sinks of all apps.
type Service struct {
	cfg    Config
	counts map[string]*counts // by kind
	sinks  *setting.Running[Sink, *writing]
}

// New loads the sinks. Events are written only while Run runs.
func New(ctx context.Context, cfg Config) (s *Service, err error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	s = &Service{cfg: cfg, counts: make(map[string]*counts)}
	for name := range cfg.Kinds {
		s.counts[name] = &counts{}
	}
	s.sinks, err = setting.NewRunning(ctx, setting.Config[Sink, *writing]{
		What: "sink", Store: cfg.Store, None: ErrNone, Own: cfg.Own, Log: cfg.Log,
		Place: func(one *Sink) (setting.Place, bool) {
			return setting.Place{App: one.App, Name: one.Kind}, one.Enabled
		},
		Changed: func(one *Sink) time.Time { return one.UpdatedAt },
		Same:    func(a, b *Sink) bool { return a.same(b) },
		Start:   func(one Sink) *writing { return &writing{s: s, sink: one} },
	})
	return s, err
}

// Run writes to the sinks until ctx ends. Its error is always nil: a refused batch is written again.
func (s *Service) Run(ctx context.Context) error { return s.sinks.Run(ctx) }

// writing is an enabled sink, whether this server or another one writes to it.
type writing struct {
	s    *Service
	sink Sink
	now  atomic.Pointer[Runner] // nil: another server writes
}

// Run writes to the sink while this server owns it.
func (w *writing) Run(ctx context.Context, held func() bool) {
	cfg := &w.s.cfg
	log := cfg.Log.With("app", w.sink.App, "sink", w.sink.Kind)
	defer w.now.Store(nil)
	for ctx.Err() == nil && held() {
		to, err := w.open()
		if err != nil {
			log.WarnContext(ctx, "sink cannot be opened", "error", err)
			pause.For(ctx, retryMost)
			continue
		}
		r := &Runner{Sink: w.sink, Events: cfg.Events, Past: cfg.Past, Progress: cfg.Progress, Writer: to, Now: cfg.Now, Log: log, counts: w.s.counts[w.sink.Kind]}
		w.now.Store(r)
		err = r.Run(ctx, held)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil && r.Show().Stopped != "":
			log.ErrorContext(ctx, "sink has stopped: nothing is written until it is set again; its status says why")
			<-ctx.Done()
			return
		case err != nil && !errors.Is(err, ErrFormer):
			log.WarnContext(ctx, "progress of a sink cannot be kept; trying again", "error", err)
		}
		pause.For(ctx, takeNext)
	}
}

func (w *writing) open() (Writer, error) {
	k, err := w.s.kind(w.sink.Kind)
	if err != nil {
		return nil, err
	}
	to := Target{Values: w.sink.Values, Targets: w.s.cfg.Targets}
	if w.sink.Private {
		to.Targets = urlguard.All
	}
	return k.Open(to)
}

// List shows an app's sinks.
func (s *Service) List(ctx context.Context, app string) ([]Info, error) {
	infos := []Info{}
	for _, one := range s.sinks.List(app) {
		info, err := s.show(ctx, &one)
		if err != nil {
			return nil, err
		}
		infos = append(infos, info)
	}
	return infos, nil
}

// Get returns one of an app's sinks.
func (s *Service) Get(ctx context.Context, app, kind string) (Info, error) {
	if _, err := s.kind(kind); err != nil {
		return Info{}, err
	}
	one, err := s.sinks.Get(setting.Place{App: app, Name: kind})
	if err != nil {
		return Info{}, err
	}
	return s.show(ctx, &one)
}

// Kinds lists the kinds of sinks that there are.
func (s *Service) Kinds() []string { return slices.Sorted(maps.Keys(s.cfg.Kinds)) }

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

// show returns a sink with its state: as this server knows it, or as the server that writes to it has saved it.
func (s *Service) show(ctx context.Context, one *Sink) (Info, error) {
	fields, _ := s.Fields(one.Kind) // a kind that this version does not know has no fields
	info := Info{Sink: *one, View: one.Values.Look(fields), State: Waiting}
	if s.cfg.Events != nil {
		info.Newest = s.cfg.Events.Last()
	}
	var r *Runner
	if w := s.sinks.Runner(setting.Place{App: one.App, Name: one.Kind}); w != nil {
		r = w.now.Load()
	}
	switch {
	case r != nil:
		info.Progress, info.State = r.Show(), Writing
		if err, since := r.Failing(); err != nil {
			info.State, info.Error, info.Since = Failing, err.Error(), since
		}
	case s.cfg.Progress != nil:
		p, err := s.cfg.Progress.SinkProgress(ctx, one.App, one.Kind)
		if err != nil {
			return info, err
		}
		info.Progress = p.begin(one, info.Newest)
	}
	if info.Stopped != "" {
		info.State, info.Error = Stopped, info.Stopped
	}
	if !one.Enabled {
		info.State, info.Newest = Disabled, info.Cursor // nothing is late
	}
	if info.Newest > info.Cursor {
		info.Oldest = s.oldest(ctx, one, info.Cursor)
	}
	return info, nil
}

// lookWithin limits the search for the oldest waiting event, since it delays a request for metrics.
const lookWithin = 2 * time.Second

// oldest returns when an app's first event after a cursor was emitted. The cursor does not show that time: it may be much older, or belong
// to no event.
func (s *Service) oldest(ctx context.Context, one *Sink, cursor uint64) time.Time {
	ctx, done := context.WithTimeout(ctx, lookWithin)
	defer done()
	switch evs, _, err := s.cfg.Events.Read(ctx, one.App, cursor, 1, false); {
	case err == nil && len(evs) == 0:
		return time.Time{}
	case err == nil:
		return event.TimeOf(evs[0].ID)
	case event.TimeOf(cursor).Before(one.CreatedAt): // the log cannot be read: no event older than the sink waits
		return one.CreatedAt
	}
	return event.TimeOf(cursor)
}

// Set makes or changes a sink, and resumes a stopped one.
func (s *Service) Set(ctx context.Context, app, kind string, c Change) (info Info, created bool, err error) {
	k, err := s.kind(kind)
	if err != nil {
		return Info{}, false, err
	}
	err = s.sinks.Update(ctx, setting.Place{App: app, Name: kind}, c.Must, func(one *Sink) error {
		before := one.Values
		if created = c.apply(one, k.Fields(), s.cfg.Now().UTC().Truncate(time.Millisecond)); created && s.cfg.Events != nil {
			one.From = max(1, s.cfg.Events.Last()) // at least 1, since 0 has another meaning; no event has so low an id
		}
		if err := k.Check(one.Values); err != nil {
			return err
		}
		return setting.CheckKept(k, before, c.Values, one.Values)
	})
	if err != nil {
		return Info{}, false, err
	}
	info, err = s.Get(ctx, app, kind)
	return info, created, err
}

// Delete ends a sink that matches, and deletes its settings. The rows that it wrote stay.
func (s *Service) Delete(ctx context.Context, app, kind string, must setting.Match) error {
	if _, err := s.kind(kind); err != nil {
		return err
	}
	return s.sinks.Delete(ctx, setting.Place{App: app, Name: kind}, must)
}
