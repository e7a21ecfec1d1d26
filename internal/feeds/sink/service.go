package sink

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"godwit.dev/godwit/internal/cluster/lease"
	"godwit.dev/godwit/internal/cluster/reload"
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
	Open     Opener
	Own      lease.Func       // which server writes to a sink; nil: this one is the only one
	Now      func() time.Time // the stores' clock; nil: time.Now
	Log      *slog.Logger
}

// Service writes to the sinks that this server owns, and shows and changes all.
type Service struct {
	cfg    Config
	counts counts

	loading sync.Mutex // one reload or change at a time

	mu      sync.Mutex
	life    context.Context // Run's; nil: not running
	sinks   map[name]Sink
	writers map[name]*writing
}

type name struct{ app, kind string }

// writing is a sink that is to be written to; also where another server does.
type writing struct {
	sink    Sink
	release func()  // under loading
	now     *Runner // under Service.mu; nil: another server writes
}

// New loads the sinks. They are written to while Run runs.
func New(ctx context.Context, cfg Config) (*Service, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	s := &Service{cfg: cfg, writers: make(map[name]*writing)}
	return s, s.load(ctx)
}

func (s *Service) load(ctx context.Context) error {
	list, err := s.cfg.Store.All(ctx)
	if err != nil {
		return fmt.Errorf("load sinks: %w", err)
	}
	sinks := make(map[name]Sink, len(list))
	for i := range list {
		sinks[name{list[i].App, list[i].Kind}] = list[i]
	}
	s.mu.Lock()
	s.sinks = sinks
	s.mu.Unlock()
	return nil
}

// Run writes to the sinks until ctx ends. Its error is always nil: what is not taken is tried again.
func (s *Service) Run(ctx context.Context) error {
	s.live(ctx)
	_ = reload.Store(ctx, "sinks", s.cfg.Store.Watch, s.reload, s.cfg.Log) // its error is always nil
	s.live(nil)                                                            //nolint:staticcheck // it runs no more
	return nil
}

func (s *Service) live(ctx context.Context) {
	s.loading.Lock()
	defer s.loading.Unlock()
	s.mu.Lock()
	s.life = ctx
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

// adjust ends what has changed and starts what is missing. Under loading.
func (s *Service) adjust() {
	var over, begin []*writing
	s.mu.Lock()
	life := s.life
	for n, w := range s.writers {
		if now, ok := s.sinks[n]; life == nil || !ok || now != w.sink {
			over = append(over, w)
			delete(s.writers, n)
		}
	}
	for n, one := range s.sinks {
		if life != nil && one.Enabled && s.writers[n] == nil {
			w := &writing{sink: one}
			s.writers[n] = w
			begin = append(begin, w)
		}
	}
	s.mu.Unlock()
	var wg sync.WaitGroup
	for _, w := range over {
		wg.Go(w.release)
	}
	wg.Wait()
	owns := s.cfg.Own
	if owns == nil {
		owns = lease.Alone(life)
	}
	for _, w := range begin {
		w.release = owns(w.sink.Kind+"/"+w.sink.App, func(ctx context.Context, held func() bool) { s.write(ctx, w, held) })
	}
}

// write writes to a sink while this server is the one that does.
func (s *Service) write(ctx context.Context, w *writing, held func() bool) {
	log := s.cfg.Log.With("app", w.sink.App, "sink", w.sink.Kind)
	defer s.runs(w, nil)
	for ctx.Err() == nil && held() {
		to, err := s.cfg.Open(&w.sink)
		if err != nil {
			log.WarnContext(ctx, "sink cannot be opened", "error", err)
			pause(ctx, retryMost)
			continue
		}
		r := &Runner{Sink: w.sink, Events: s.cfg.Events, Past: s.cfg.Past, Progress: s.cfg.Progress, Writer: to, Now: s.cfg.Now, Log: log, counts: &s.counts}
		s.runs(w, r)
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
		pause(ctx, takeNext)
	}
}

func (s *Service) runs(w *writing, r *Runner) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.now = r
}

// List shows an app's sinks.
func (s *Service) List(ctx context.Context, app string) ([]Info, error) {
	s.mu.Lock()
	all := slices.Collect(maps.Values(s.sinks))
	s.mu.Unlock()
	infos := []Info{}
	for i := range all {
		if all[i].App != app {
			continue
		}
		info, err := s.show(ctx, &all[i])
		if err != nil {
			return nil, err
		}
		infos = append(infos, info)
	}
	slices.SortFunc(infos, func(a, b Info) int { return cmp.Compare(a.Kind, b.Kind) })
	return infos, nil
}

// Get shows one of an app's sinks.
func (s *Service) Get(ctx context.Context, app, kind string) (Info, error) {
	if err := known(kind); err != nil {
		return Info{}, err
	}
	s.mu.Lock()
	one, ok := s.sinks[name{app, kind}]
	s.mu.Unlock()
	if !ok {
		return Info{}, fmt.Errorf("sink %s: %w", kind, ErrNone)
	}
	return s.show(ctx, &one)
}

func known(kind string) error {
	if kind != ClickHouse {
		return fmt.Errorf("%w: %.64q; there is %s", ErrUnknown, kind, ClickHouse)
	}
	return nil
}

// show says how a sink fares, as this server knows or as the one that writes has saved.
func (s *Service) show(ctx context.Context, one *Sink) (Info, error) {
	info := Info{Sink: *one, State: Waiting}
	if s.cfg.Events != nil {
		info.Newest = s.cfg.Events.Last()
	}
	s.mu.Lock()
	var r *Runner
	if w := s.writers[name{one.App, one.Kind}]; w != nil {
		r = w.now
	}
	s.mu.Unlock()
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

// Set makes or changes a sink, and has one that stopped go on. A password stays unless the change has one.
func (s *Service) Set(ctx context.Context, app, kind string, c Change) (info Info, created bool, err error) {
	if err := known(kind); err != nil {
		return Info{}, false, err
	}
	err = s.cfg.Store.Update(ctx, app, kind, func(one *Sink, _ int) error {
		if created = c.apply(one, s.cfg.Now().UTC().Truncate(time.Millisecond)); created && s.cfg.Events != nil {
			one.From = max(1, s.cfg.Events.Last()) // no event has so low an id
		}
		return one.check()
	})
	if err != nil {
		return Info{}, false, fmt.Errorf("set sink %s of app %s: %w", kind, app, err)
	}
	s.cfg.Log.InfoContext(ctx, "sink set", "app", app, "sink", kind)
	if err := s.reload(ctx); err != nil {
		return Info{}, created, err
	}
	info, err = s.Get(ctx, app, kind)
	return info, created, err
}

// Delete ends a sink and forgets its settings. The rows that it wrote stay.
func (s *Service) Delete(ctx context.Context, app, kind string) error {
	if err := known(kind); err != nil {
		return err
	}
	found, err := s.cfg.Store.Delete(ctx, app, kind)
	if err != nil {
		return fmt.Errorf("delete sink %s of app %s: %w", kind, app, err)
	}
	if !found {
		return fmt.Errorf("delete sink %s of app %s: %w", kind, app, ErrNone)
	}
	s.cfg.Log.InfoContext(ctx, "sink deleted", "app", app, "sink", kind)
	return s.reload(ctx)
}
