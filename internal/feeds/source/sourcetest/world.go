package sourcetest

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/messaging/pubsub"
	"godwit.dev/godwit/internal/notify/delivery"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/objects/object"
	"godwit.dev/godwit/internal/server/httpapi/backend"
	"godwit.dev/godwit/internal/testkit/eventually"
	"godwit.dev/godwit/internal/testkit/logbuffer"
)

// kept is what was published, put and sent. Publishes are told apart by id, as in a mailbox.
type kept struct {
	mu      sync.Mutex
	got     []string
	ids     map[string]int
	objects map[object.Key]object.State
	full    map[string]bool // recipients whose mailbox is full
	down    error
	once    func() // runs during the next publish
	apart   bool   // what is put is in objects alone
}

func (k *kept) Publish(_ context.Context, _ string, drafts []*notification.Draft) []delivery.Result {
	k.mu.Lock()
	defer k.mu.Unlock()
	if once := k.once; once != nil {
		k.once = nil
		once()
	}
	results := make([]delivery.Result, len(drafts))
	for i, d := range drafts {
		results[i] = k.publish(d)
	}
	return results
}

func (k *kept) publish(d *notification.Draft) delivery.Result {
	if len(d.To) == 0 {
		return delivery.Result{Err: notification.BadField("to", "is required")}
	}
	r := delivery.Result{ID: d.ID, Err: k.down, Copies: []delivery.Copy{{To: d.To[0], Duplicate: k.ids[d.ID] > 0}}}
	switch {
	case k.down != nil:
	case k.full[d.To[0]] && k.ids[d.ID] == 0:
		r.Copies[0].Err = mailbox.ErrFull
	default:
		if k.ids[d.ID]++; k.ids[d.ID] == 1 {
			k.got = append(k.got, strings.TrimSpace(fmt.Sprintf("%s %s %s", d.To[0], d.Content.Title, d.Content.Data)))
		}
	}
	return r
}

func (k *kept) Put(_ context.Context, _ string, key object.Key, p *object.Put) (object.State, bool, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.down != nil {
		return object.State{}, false, k.down
	}
	was := k.objects[key]
	st, changed, err := was.Apply(p, was.UpdatedAt.AddDate(1, 0, 0))
	if k.objects[key] = st; changed && !k.apart {
		what := string(st.Payload)
		if !st.Known {
			what = "is unknown"
		}
		k.got = append(k.got, fmt.Sprintf("%s/%s %s", key.Group, key.Object, what))
	}
	return st, changed, err
}

func (k *kept) Names(_ context.Context, _, group, _ string, _ int) (names []string, next string, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for key := range k.objects {
		if key.Group == group {
			names = append(names, key.Object)
		}
	}
	return names, "", nil
}

type topics struct{ *kept }

func (t topics) Publish(_ context.Context, _ string, m *pubsub.Message) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.got = append(t.got, fmt.Sprintf("topic %s %s", m.Topic, m.Data))
	return nil
}

// Settings is a Store of one source.
type Settings struct {
	One *source.Source

	mu sync.Mutex
}

// All implements source.Store.
func (s *Settings) All(context.Context) (list []source.Source, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.One != nil {
		list = append(list, *s.One)
	}
	return list, nil
}

// Update implements source.Store.
func (s *Settings) Update(_ context.Context, app, name string, change func(*source.Source, int) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := source.Source{App: app, Name: name}
	if s.One != nil && s.One.App == app && s.One.Name == name {
		one = *s.One
	}
	err := change(&one, 0)
	s.One = &one
	return err
}

// Delete implements source.Store.
func (s *Settings) Delete(context.Context, string, string, func(*source.Source) error) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.One != nil
	s.One = nil
	return was, nil
}

// Watch implements source.Store.
func (*Settings) Watch(ctx context.Context, _ func()) error {
	<-ctx.Done()
	return nil
}

// World is a service that reads one source of the app shop, with fakes of the mailboxes, objects and topics behind it.
type World struct {
	*testing.T
	Name    string // of the source, and its kind
	Values  setting.Values
	Records *Records
	Service *source.Service
	Logged  *logbuffer.Buffer // what the service has logged

	kind     source.Kind
	settings *Settings
	kept     *kept
	stop     func()
}

// NewWorld makes a world without a source.
func NewWorld(t *testing.T, name string, kind source.Kind) *World {
	return &World{
		T: t, Name: name, kind: kind, Values: setting.Values{}, Records: NewRecords(), Logged: &logbuffer.Buffer{}, settings: &Settings{},
		kept: &kept{ids: make(map[string]int), full: make(map[string]bool), objects: make(map[object.Key]object.State)},
	}
}

// Set sets the source up, or changes it.
func (w *World) Set(c source.Change) {
	w.Helper()
	if _, _, err := w.Service.Set(w.Context(), "shop", w.Name, c); err != nil {
		w.Fatal(err)
	}
}

// Start sets the source up and reads it.
func (w *World) Start(private bool) {
	w.Helper()
	w.Run()
	w.Set(source.Change{Values: w.Values, Private: private})
}

// Run reads the sources that there are, until Stop.
func (w *World) Run() {
	w.Helper()
	s, err := source.New(w.Context(), source.Config{
		Store: w.settings, Records: w.Records, Publisher: w.kept, Objects: w.kept, Topics: topics{w.kept}, Read: backend.ReadEntries,
		Kinds: map[string]source.Kind{w.Name: w.kind}, Log: slog.New(slog.NewTextHandler(w.Logged, nil)),
	})
	if err != nil {
		w.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = s.Run(ctx) })
	w.Service, w.stop = s, func() { cancel(); running.Wait() }
	w.Cleanup(w.stop)
}

// Stop ends reading, as a server does that ends. Run begins it again.
func (w *World) Stop() { w.stop() }

// Fill makes the mailbox of a recipient full, or not full any more.
func (w *World) Fill(to string, full bool) {
	w.kept.mu.Lock()
	defer w.kept.mu.Unlock()
	w.kept.full[to] = full
}

// Down makes publishes fail with an error; nil: not any more.
func (w *World) Down(err error) {
	w.kept.mu.Lock()
	defer w.kept.mu.Unlock()
	w.kept.down = err
}

// Once has a function run during the next publish.
func (w *World) Once(do func()) {
	w.kept.mu.Lock()
	defer w.kept.mu.Unlock()
	w.kept.once = do
}

// PutsApart keeps what is put out of Came, for tests that look at Objects.
func (w *World) PutsApart() { w.kept.apart = true }

// Came returns what has come since Gets was last called.
func (w *World) Came() []string {
	w.kept.mu.Lock()
	defer w.kept.mu.Unlock()
	return slices.Clone(w.kept.got)
}

// IDs returns how often each notification was published, by its id.
func (w *World) IDs() map[string]int {
	w.kept.mu.Lock()
	defer w.kept.mu.Unlock()
	return maps.Clone(w.kept.ids)
}

// Objects returns all objects.
func (w *World) Objects() map[object.Key]object.State {
	w.kept.mu.Lock()
	defer w.kept.mu.Unlock()
	return maps.Clone(w.kept.objects)
}

// Info returns the state of the source.
func (w *World) Info() source.Info {
	w.Helper()
	i, err := w.Service.Get("shop", w.Name)
	if err != nil {
		w.Fatal(err)
	}
	return i
}

// Becomes waits until the source has a state and says a text.
func (w *World) Becomes(state source.State, says string) {
	w.Helper()
	if !eventually.Holds(func() bool { i := w.Info(); return i.State == state && strings.Contains(i.Error+i.Detail, says) }) {
		w.Fatalf("the source is not %s with %q but %+v", state, says, w.Info())
	}
}

// Gets waits until exactly these have come, in order, and returns them to be none.
func (w *World) Gets(want ...string) {
	w.Helper()
	if !eventually.Holds(func() bool { return len(w.Came()) >= len(want) }) || !slices.Equal(w.Came(), want) {
		w.Fatalf("got\n%s\nwant\n%s\n%+v", strings.Join(w.Came(), "\n"), strings.Join(want, "\n"), w.Info())
	}
	w.kept.mu.Lock()
	w.kept.got = nil
	w.kept.mu.Unlock()
}

// Quarantine waits until so many entries are in quarantine, and returns them.
func (w *World) Quarantine(n int) (list []source.SetAside) {
	w.Helper()
	eventually.True(w.T, fmt.Sprintf("%d entries are in quarantine", n), func() bool {
		list, _ = w.Records.Quarantine(w.Context(), setting.Place{App: "shop", Name: w.Name}, 0, n+1)
		return len(list) == n
	})
	return list
}
