package source_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/notify/delivery"
	"godwit.dev/godwit/internal/notify/notification"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// settings keep sources in memory.
type settings struct {
	mu      sync.Mutex
	list    map[[2]string]source.Source
	changed chan struct{}
}

func newSettings() *settings {
	return &settings{list: map[[2]string]source.Source{}, changed: make(chan struct{}, 1)}
}

func (s *settings) All(context.Context) (list []source.Source, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.list {
		list = append(list, one)
	}
	return list, nil
}

func (s *settings) Update(_ context.Context, app, kind string, change func(*source.Source, int) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if app == "nobody" {
		return access.ErrUnknownApp
	}
	one, ok := s.list[[2]string{app, kind}]
	if !ok {
		one = source.Source{App: app, Kind: kind}
	}
	if err := change(&one, 0); err != nil {
		return err
	}
	s.list[[2]string{app, kind}] = one
	return nil
}

func (s *settings) Delete(_ context.Context, app, kind string) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.list[[2]string{app, kind}]
	delete(s.list, [2]string{app, kind})
	return ok, nil
}

func (s *settings) Watch(ctx context.Context, changed func()) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.changed:
			changed()
		}
	}
}

// redis has streams in memory.
type redis struct {
	mu       sync.Mutex
	streams  map[string][]source.Entry
	asideIDs []string // of entries in quarantine
	why      []string
	down     error // what every call fails with
	opened   int
	targets  []source.Target
	reads    int
	watcher  func(keys []string) // nil: nobody watches
	missed   func()
}

func newRedis() *redis { return &redis{streams: map[string][]source.Entry{}} }

func (r *redis) open(_ context.Context, t source.Target) (source.Streams, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.targets = append(r.targets, t)
	if r.down != nil {
		return nil, r.down
	}
	r.opened++
	return &streams{r}, nil
}

// entry makes an entry of a stream of who.
func entry(id, who, note string, expires time.Time) source.Entry {
	return source.Entry{ID: id, Draft: &notification.Draft{To: []string{who}, ID: note, Content: notification.Content{Title: note}, ExpiresAt: expires}}
}

// add adds to a stream; told: who watches is told.
func (r *redis) add(key string, told bool, list ...source.Entry) {
	r.mu.Lock()
	r.streams[key] = append(r.streams[key], list...)
	watcher := r.watcher
	r.mu.Unlock()
	if told && watcher != nil {
		watcher([]string{key})
	}
}

func (r *redis) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.down = err
}

// left lists the ids of the entries of a stream.
func (r *redis) left(key string) (ids []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.streams[key] {
		ids = append(ids, e.ID)
	}
	return ids
}

type streams struct{ *redis }

func (s *streams) Finding() string { return "tracking" }
func (s *streams) Close()          {}

func (s *streams) Watch(ctx context.Context, hint func(keys []string), missed func()) error {
	s.mu.Lock()
	s.watcher, s.missed = hint, missed
	s.mu.Unlock()
	<-ctx.Done()
	return context.Cause(ctx)
}

func (s *streams) Scan(_ context.Context, found func(keys []string) error) error {
	s.mu.Lock()
	if s.down != nil {
		defer s.mu.Unlock()
		return s.down
	}
	keys := []string{}
	for k := range s.streams {
		keys = append(keys, k)
	}
	s.mu.Unlock()
	slices.Sort(keys)
	for part := range slices.Chunk(keys, 100) {
		if err := found(part); err != nil {
			return err
		}
	}
	return nil
}

func (s *streams) Read(_ context.Context, keys []string, most int) (list []source.Stream, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	for _, k := range keys {
		all := s.streams[k]
		list = append(list, source.Stream{Key: k, Entries: slices.Clone(all[:min(most, len(all))])})
	}
	return list, s.down
}

func (s *streams) Delete(_ context.Context, ids map[string][]string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down != nil {
		return s.down
	}
	for k, list := range ids {
		s.streams[k] = slices.DeleteFunc(s.streams[k], func(e source.Entry) bool { return slices.Contains(list, e.ID) })
	}
	return nil
}

func (s *streams) Quarantine(_ context.Context, key string, e source.Entry, why error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asideIDs, s.why = append(s.asideIDs, e.ID), append(s.why, why.Error())
	s.streams[key] = slices.DeleteFunc(s.streams[key], func(o source.Entry) bool { return o.ID == e.ID })
	return s.down
}

// mailboxes remember what was published.
type mailboxes struct {
	mu      sync.Mutex
	got     []string                        // "app/recipient/id"
	down    error                           // what every publish fails with
	answers map[string]func(*delivery.Copy) // by id of the notification
	drafts  map[string]*notification.Draft  // by id
	largest int                             // most drafts of one call
}

func (m *mailboxes) Publish(_ context.Context, app string, drafts []*notification.Draft) []delivery.Result {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.largest = max(m.largest, len(drafts))
	results := make([]delivery.Result, len(drafts))
	for i, d := range drafts {
		results[i].ID = d.ID
		if m.down != nil {
			results[i].Err = m.down
			continue
		}
		if d.ID == "" {
			results[i].Err = notification.BadField("id", "is required")
			continue
		}
		c := delivery.Copy{To: d.To[0], Status: notification.Stored}
		if f := m.answers[d.ID]; f != nil {
			f(&c)
		}
		name := app + "/" + d.To[0] + "/" + d.ID
		if c.Err == nil && slices.Contains(m.got, name) {
			c.Duplicate = true
		}
		if c.Err == nil && !c.Duplicate {
			m.got = append(m.got, name)
			if m.drafts == nil {
				m.drafts = map[string]*notification.Draft{}
			}
			m.drafts[d.ID] = d
		}
		results[i].Copies = []delivery.Copy{c}
	}
	return results
}

func (m *mailboxes) stored() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.got)
}

// forget has a publish of an id be answered like any other again.
func (m *mailboxes) forget(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.answers, id)
}

func (m *mailboxes) fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.down = err
}

var errDown = errors.New("not there")

// world is a service over these.
type world struct {
	*source.Service
	settings *settings
	redis    *redis
	boxes    *mailboxes
	log      *strings.Builder
	stop     func()
}

// begin starts a service, within a bubble of synctest.
func begin(t *testing.T, change ...func(*source.Config)) *world {
	t.Helper()
	w := &world{settings: newSettings(), redis: newRedis(), boxes: &mailboxes{answers: map[string]func(*delivery.Copy){}}, log: &strings.Builder{}}
	cfg := source.Config{Store: w.settings, Publisher: w.boxes, Open: w.redis.open, Log: slog.New(slog.NewTextHandler(w.log, nil))}
	for _, f := range change {
		f(&cfg)
	}
	s, err := source.New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	w.Service = s
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Run(ctx) }()
	w.stop = func() { cancel(); <-done }
	return w
}

func (w *world) set(t *testing.T, app string, c source.Change) source.Info {
	t.Helper()
	if c.URLs == nil {
		c.URLs = []string{"redis://r.example:6379"}
	}
	info, _, err := w.Set(t.Context(), app, source.RedisStream, c)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func (w *world) info(t *testing.T, app string) source.Info {
	t.Helper()
	info, err := w.Get(app, source.RedisStream)
	if err != nil {
		t.Fatal(err)
	}
	return info
}
