package streams_test

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
	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/feeds/source/sourcetest"
	"godwit.dev/godwit/internal/feeds/source/streams"
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
		one = source.Source{App: app, Name: kind}
	}
	if err := change(&one, 0); err != nil {
		return err
	}
	s.list[[2]string{app, kind}] = one
	return nil
}

func (s *settings) Delete(_ context.Context, app, kind string, _ func(*source.Source) error) (bool, error) {
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
	kept     map[string][]streams.Entry
	asideIDs []string // of entries in quarantine
	why      []string
	down     error // what every call fails with
	opened   int
	targets  []streams.Target
	reads    int
	watcher  func(keys []string) // nil: nobody watches
	missed   func()
}

func newRedis() *redis { return &redis{kept: map[string][]streams.Entry{}} }

func (r *redis) open(_ context.Context, t streams.Target) (streams.Streams, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.targets = append(r.targets, t)
	if r.down != nil {
		return nil, r.down
	}
	r.opened++
	return &reading{r}, nil
}

// entry makes an entry for a stream of the recipient who.
func entry(id, who, note string, expires time.Time) streams.Entry {
	return streams.Entry{ID: id, Draft: &notification.Draft{To: []string{who}, ID: note, Content: notification.Content{Title: note}, ExpiresAt: expires}}
}

// add adds entries to a stream; told: watchers of the stream are notified.
func (r *redis) add(key string, told bool, list ...streams.Entry) {
	r.mu.Lock()
	r.kept[key] = append(r.kept[key], list...)
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
	for _, e := range r.kept[key] {
		ids = append(ids, e.ID)
	}
	return ids
}

type reading struct{ *redis }

func (s *reading) Finding() string { return "tracking" }
func (s *reading) Close()          {}

func (s *reading) Watch(ctx context.Context, hint func(keys []string), missed func()) error {
	s.mu.Lock()
	s.watcher, s.missed = hint, missed
	s.mu.Unlock()
	<-ctx.Done()
	return context.Cause(ctx)
}

func (s *reading) Scan(_ context.Context, found func(keys []string) error) error {
	s.mu.Lock()
	if s.down != nil {
		defer s.mu.Unlock()
		return s.down
	}
	keys := []string{}
	for k := range s.kept {
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

func (s *reading) Read(_ context.Context, keys []string, most int) (list []streams.Stream, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	for _, k := range keys {
		all := s.kept[k]
		list = append(list, streams.Stream{Key: k, Entries: slices.Clone(all[:min(most, len(all))])})
	}
	return list, s.down
}

func (s *reading) Delete(_ context.Context, ids map[string][]string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down != nil {
		return s.down
	}
	for k, list := range ids {
		s.kept[k] = slices.DeleteFunc(s.kept[k], func(e streams.Entry) bool { return slices.Contains(list, e.ID) })
	}
	return nil
}

func (s *reading) Quarantine(_ context.Context, key string, e streams.Entry, why error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asideIDs, s.why = append(s.asideIDs, e.ID), append(s.why, why.Error())
	s.kept[key] = slices.DeleteFunc(s.kept[key], func(o streams.Entry) bool { return o.ID == e.ID })
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

// forget makes the mailboxes answer publishes of an id normally again.
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

// world is a service with these fakes.
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
	cfg := source.Config{Store: w.settings, Records: sourcetest.NewRecords(), Publisher: w.boxes, Kinds: map[string]source.Kind{streams.Name: streams.Kind{Dial: w.redis.open}}, Log: slog.New(slog.NewTextHandler(w.log, nil))}
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

// from are values of a source.
func from(password string, urls, recipients []string) setting.Values {
	v := setting.Values{}
	setting.Put(v, streams.FieldURLs, urls)
	setting.Put(v, streams.FieldRecipients, recipients)
	if password != "" {
		setting.Put(v, streams.FieldPassword, password)
	}
	return v
}

func (w *world) set(t *testing.T, app string, c source.Change) source.Info {
	t.Helper()
	if c.Values == nil {
		c.Values = from("", []string{"redis://r.example:6379"}, nil)
	}
	info, _, err := w.Set(t.Context(), app, streams.Name, c)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func (w *world) info(t *testing.T, app string) source.Info {
	t.Helper()
	info, err := w.Get(app, streams.Name)
	if err != nil {
		t.Fatal(err)
	}
	return info
}
