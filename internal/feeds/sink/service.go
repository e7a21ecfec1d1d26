package sink

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"godwit.dev/godwit/internal/cluster/lease"
	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/engine/pause"
	"godwit.dev/godwit/internal/feeds/event"
)

// takeNext is how soon a sink is taken over again after its progress could not be kept.
const takeNext = 2 * time.Second

// State is a sink's condition in one word.
type State string

// States.
const (
	Writing  State = "writing"
	Failing  State = "failing"  // the next batch is not taken; it is tried again
	Stopped  State = "stopped"  // it never will be as things are; setting the sink again goes on
	Waiting  State = "waiting"  // another node writes, or none yet
	Disabled State = "disabled" // switched off
)

// Info is what may be seen of a sink: never its password.
type Info struct {
	Sink
	setting.View
	Progress
	State  State
	Error  string    // why it fails or has stopped
	Since  time.Time // when it began to fail; zero: it does not, or that is not known here
	Newest uint64    // event in the log, of any app: how far there is to go
	Oldest time.Time // when the app's first event was told that is not there yet; zero: there is none
}

// Config are the parts that sinks need. To set sinks up, only the store and the log are needed.
type Config struct {
	Store    Store
	Progress ProgressStore
	Events   event.Log
	Past     Past // nil: what the log has deleted is not noticed
	Kinds    map[string]Kind
	Own      lease.Func       // which server writes to a sink; nil: this one is the only one
	Now      func() time.Time // the stores' clock; nil: time.Now
	Log      *slog.Logger

	AllowPrivate bool // sinks that were set over the API may lead to private addresses, too
}

// Service writes to the sinks that this server owns, and shows and changes all.
type Service struct {
	cfg    Config
	counts map[string]*counts // by kind
	sinks  *setting.Running[Sink, *writing]
}

// New loads the sinks. They are written to while Run runs.
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
		Same:  func(a, b *Sink) bool { return a.same(b) },
		Start: func(one Sink) *writing { return &writing{s: s, sink: one} },
	})
	return s, err
}

// Run writes to the sinks until ctx ends. Its error is always nil: a refused batch is written again.
func (s *Service) Run(ctx context.Context) error { return s.sinks.Run(ctx) }

// writing is a sink that is to be written to; also where another server does.
type writing struct {
	s    *Service
	sink Sink
	now  atomic.Pointer[Runner] // nil: another server writes
}

// Run writes to the sink while this server is the one that does.
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
	return k.Open(Target{Values: w.sink.Values, Private: w.sink.Private || w.s.cfg.AllowPrivate})
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

// Get shows one of an app's sinks.
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

// Fields are the fields of a kind.
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

// show says how a sink fares, as this server knows or as the one that writes has saved.
func (s *Service) show(ctx context.Context, one *Sink) (Info, error) {
	fields, _ := s.Fields(one.Kind) // a kind of another version has none
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

// lookWithin is how long it may take to find the oldest event that waits: figures are read while it is looked for.
const lookWithin = 2 * time.Second

// oldest is when an app's first event behind a cursor was told. The cursor itself says nothing of that: it may be of another year, or of
// no event.
func (s *Service) oldest(ctx context.Context, one *Sink, cursor uint64) time.Time {
	ctx, done := context.WithTimeout(ctx, lookWithin)
	defer done()
	switch evs, _, err := s.cfg.Events.Read(ctx, one.App, cursor, 1, false); {
	case err == nil && len(evs) == 0:
		return time.Time{}
	case err == nil:
		return event.TimeOf(evs[0].ID)
	case event.TimeOf(cursor).Before(one.CreatedAt): // the log cannot be read: what the sink has not written since it was made
		return one.CreatedAt
	}
	return event.TimeOf(cursor)
}

// Set makes or changes a sink, and has one that stopped go on.
func (s *Service) Set(ctx context.Context, app, kind string, c Change) (info Info, created bool, err error) {
	k, err := s.kind(kind)
	if err != nil {
		return Info{}, false, err
	}
	err = s.sinks.Update(ctx, setting.Place{App: app, Name: kind}, func(one *Sink) error {
		if created = c.apply(one, k.Fields(), s.cfg.Now().UTC().Truncate(time.Millisecond)); created && s.cfg.Events != nil {
			one.From = max(1, s.cfg.Events.Last()) // no event has so low an id
		}
		return k.Check(one.Values)
	})
	if err != nil {
		return Info{}, false, err
	}
	info, err = s.Get(ctx, app, kind)
	return info, created, err
}

// Delete ends a sink and forgets its settings. The rows that it wrote stay.
func (s *Service) Delete(ctx context.Context, app, kind string) error {
	if _, err := s.kind(kind); err != nil {
		return err
	}
	return s.sinks.Delete(ctx, setting.Place{App: app, Name: kind})
}
