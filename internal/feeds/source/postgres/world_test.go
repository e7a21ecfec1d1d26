package postgres_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/feeds/source/postgres"
	"godwit.dev/godwit/internal/feeds/source/sourcetest"
	"godwit.dev/godwit/internal/messaging/pubsub"
	"godwit.dev/godwit/internal/notify/delivery"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/objects/object"
	"godwit.dev/godwit/internal/server/httpapi/backend"
	"godwit.dev/godwit/internal/store/postgres/pgtest"
	"godwit.dev/godwit/internal/testkit/eventually"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// kept is what was published, put and sent. Publishes are told apart by id, as in a mailbox.
type kept struct {
	mu      sync.Mutex
	got     []string
	ids     map[string]int
	objects map[object.Key]object.State
	down    error
}

func newKept() *kept {
	return &kept{ids: make(map[string]int), objects: make(map[object.Key]object.State)}
}

func (k *kept) Publish(_ context.Context, _ string, drafts []*notification.Draft) []delivery.Result {
	k.mu.Lock()
	defer k.mu.Unlock()
	results := make([]delivery.Result, len(drafts))
	for i, d := range drafts {
		results[i] = delivery.Result{ID: d.ID, Err: k.down, Copies: []delivery.Copy{{To: d.To[0], Duplicate: k.ids[d.ID] > 0}}}
		if k.down == nil {
			if k.ids[d.ID]++; k.ids[d.ID] == 1 {
				k.got = append(k.got, fmt.Sprintf("%s %s %s", d.To[0], d.Content.Title, d.Content.Data))
			}
		}
	}
	return results
}

func (k *kept) Put(_ context.Context, _ string, key object.Key, p *object.Put) (object.State, bool, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.down != nil {
		return object.State{}, false, k.down
	}
	was := k.objects[key]
	st, changed, err := was.Apply(p, was.UpdatedAt.AddDate(1, 0, 0))
	k.objects[key] = st
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

// settings hold one source.
type settings struct {
	mu  sync.Mutex
	one *source.Source
}

func (s *settings) All(context.Context) (list []source.Source, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.one != nil {
		list = append(list, *s.one)
	}
	return list, nil
}

func (s *settings) Update(_ context.Context, app, name string, change func(*source.Source, int) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := source.Source{App: app, Name: name}
	if s.one != nil {
		one = *s.one
	}
	err := change(&one, 0)
	s.one = &one
	return err
}

func (s *settings) Delete(context.Context, string, string) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.one != nil
	s.one = nil
	return was, nil
}

func (s *settings) Watch(ctx context.Context, _ func()) error {
	<-ctx.Done()
	return nil
}

// world is a PostgreSQL with a service that reads it.
type world struct {
	t        *testing.T
	pg       *pgtest.Server
	kept     *kept
	settings *settings
	records  *sourcetest.Records
	*source.Service
	stop func()
}

var logical = pgtest.Options{Settings: map[string]string{"wal_level": "logical", "max_wal_senders": "8", "max_replication_slots": "8", "max_slot_wal_keep_size": "64MB"}}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, pg: pgtest.Start(t, logical), kept: newKept(), settings: &settings{}, records: sourcetest.NewRecords()}
	w.start()
	t.Cleanup(func() { w.stop() })
	return w
}

// start starts the service.
func (w *world) start() {
	w.t.Helper()
	s, err := source.New(w.t.Context(), source.Config{
		Store: w.settings, Records: w.records, Publisher: w.kept, Objects: w.kept, Topics: topics{w.kept}, Read: backend.ReadEntries,
		Kinds: map[string]source.Kind{postgres.Name: postgres.Kind{}}, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.Service = s
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = s.Run(ctx) }()
	w.stop = sync.OnceFunc(func() { cancel(); <-ended })
}

// set sets the source up; fields are names and values.
func (w *world) set(fields ...any) {
	w.t.Helper()
	v := setting.Values{postgres.FieldURL: setting.JSON(w.pg.URL())}
	for i := 0; i < len(fields); i += 2 {
		v[fields[i].(string)] = setting.JSON(fields[i+1])
	}
	if _, _, err := w.Set(w.t.Context(), "shop", postgres.Name, source.Change{Values: v, Private: true}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) info() source.Info {
	w.t.Helper()
	i, err := w.Get("shop", postgres.Name)
	if err != nil {
		w.t.Fatal(err)
	}
	return i
}

// becomes waits until the source has a state and says a text.
func (w *world) becomes(state source.State, says string) {
	w.t.Helper()
	if !eventually.Holds(func() bool { i := w.info(); return i.State == state && strings.Contains(i.Error+i.Detail, says) }) {
		w.t.Fatalf("the source is not %s with %q but %+v", state, says, w.info())
	}
}

// sql runs statements, each in a transaction of its own, unless it begins one.
func (w *world) sql(statements ...string) {
	w.t.Helper()
	w.in(w.pg.URL(), statements...)
}

// in runs statements in a database.
func (w *world) in(url string, statements ...string) {
	w.t.Helper()
	c, err := pgx.Connect(w.t.Context(), url)
	if err != nil {
		w.t.Fatal(err)
	}
	defer c.Close(context.Background())
	for _, s := range statements {
		if _, err := c.PgConn().Exec(w.t.Context(), s).ReadAll(); err != nil {
			w.t.Fatalf("%s: %v", s, err)
		}
	}
}

// drops drops a replication slot once the server has noticed that its reader is gone.
func (w *world) drops(slot string) {
	w.t.Helper()
	if !eventually.Holds(func() bool {
		return w.text("SELECT count(*)::text FROM pg_replication_slots WHERE active AND slot_name = '"+slot+"'") == "0"
	}) {
		w.t.Fatalf("the slot %s stays in use", slot)
	}
	w.sql("SELECT pg_drop_replication_slot('" + slot + "')")
}

// emits is a statement that emits a message for the app shop.
func emits(body string) string {
	return "SELECT pg_logical_emit_message(true, 'godwit.shop', '" + body + "');"
}

// gets waits until exactly these have come, in order, and returns them to be none.
func (w *world) gets(want ...string) {
	w.t.Helper()
	got := func() []string {
		w.kept.mu.Lock()
		defer w.kept.mu.Unlock()
		return slices.Clone(w.kept.got)
	}
	if !eventually.Holds(func() bool { return len(got()) >= len(want) }) || !slices.Equal(got(), want) {
		w.t.Fatalf("got\n%s\nwant\n%s\n%+v", strings.Join(got(), "\n"), strings.Join(want, "\n"), w.info())
	}
	w.kept.mu.Lock()
	w.kept.got = nil
	w.kept.mu.Unlock()
}

// object waits until an object has a payload; "" is unknown.
func (w *world) object(name, want string) {
	w.t.Helper()
	at := func() object.State {
		w.kept.mu.Lock()
		defer w.kept.mu.Unlock()
		return w.kept.objects[object.Key{Group: "gates", Object: name}]
	}
	if !eventually.Holds(func() bool {
		st := at()
		return !st.UpdatedAt.IsZero() && st.Known == (want != "") && string(st.Payload) == want
	}) {
		w.t.Fatalf("object %s is %+v, want %q; the source is %+v", name, at(), want, w.info())
	}
}

// quarantined returns the reasons of entries in quarantine, newest last.
func (w *world) quarantined() (why []string) {
	w.t.Helper()
	list, err := w.records.Quarantine(w.t.Context(), setting.Place{App: "shop", Name: postgres.Name}, 0, 100)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, e := range list {
		why = append(why, e.Why+" "+string(e.Text))
	}
	return why
}

// text returns the only value of a query.
func (w *world) text(query string) (text string) {
	w.t.Helper()
	c, err := pgx.Connect(w.t.Context(), w.pg.URL())
	if err != nil {
		w.t.Fatal(err)
	}
	defer c.Close(context.Background())
	if err := c.QueryRow(w.t.Context(), query).Scan(&text); err != nil {
		w.t.Fatalf("%s: %v", query, err)
	}
	return text
}

// refused sets the source up with values and returns the error.
func (w *world) refused(values map[string]any) error {
	v := setting.Values{}
	for name, value := range values {
		v[name] = setting.JSON(value)
	}
	_, _, err := w.Set(w.t.Context(), "shop", postgres.Name, source.Change{Values: v})
	return err
}
