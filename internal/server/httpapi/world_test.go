package httpapi_test

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/access/audit"
	"godwit.dev/godwit/internal/campaigns/endpoint"
	"godwit.dev/godwit/internal/campaigns/segment"
	"godwit.dev/godwit/internal/campaigns/template"
	"godwit.dev/godwit/internal/engine/reactor"
	"godwit.dev/godwit/internal/notify/delivery"
	"godwit.dev/godwit/internal/notify/session"
	"godwit.dev/godwit/internal/objects/signal"
	"godwit.dev/godwit/internal/sending/channel"
	"godwit.dev/godwit/internal/server/httpapi"
	"godwit.dev/godwit/internal/server/httpapi/direct"
	"godwit.dev/godwit/internal/server/metrics"
	"godwit.dev/godwit/internal/server/problem"
	"godwit.dev/godwit/internal/store/sqlite/appdb"
	"godwit.dev/godwit/internal/store/sqlite/campaigndb"
	"godwit.dev/godwit/internal/store/sqlite/sqlitetest"
	"godwit.dev/godwit/internal/testkit/apispec"
	"godwit.dev/godwit/internal/testkit/logbuffer"
)

// world is a running API over an in-memory mailbox and real access control. It has the apps shop and other.
type world struct {
	t         testing.TB
	srv       *httptest.Server
	access    *access.Registry
	channels  *channel.Service
	outside   *http.Client // of its senders
	endpoints *campaigndb.Store
	mailbox   *memory
	objects   *signal.Service
	presence  *presence
	events    *events
	draining  chan struct{}
	log       *logbuffer.Buffer
	reactor   *reactor.Reactor // of directly
	cfg       setup
	key       string            // key of app shop with role admin, which do uses
	operator  string            // the operator key
	folder    string            // with the operator key
	keys      map[string]string // keys of app shop by role; "other" is that of app other
}

// newWorld starts an API; change alters its configuration first.
func newWorld(t testing.TB, change ...func(*setup)) *world {
	t.Helper()
	w := &world{
		t: t, mailbox: newMemory(), presence: &presence{sessions: map[[2]string][]session.Info{}}, events: newEvents(),
		draining: make(chan struct{}), log: new(logbuffer.Buffer), keys: map[string]string{},
	}
	log := slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	store := w.openAccess(log)
	w.openChannels(store, log)
	w.openObjects(log)
	w.endpoints = sqlitetest.Campaigns(t)
	publisher, templates := delivery.New(w.mailbox, time.Now), template.New(store, time.Now)
	publisher.FillWith(templates.Fill)
	cfg := setup{
		Publisher: publisher, Templates: templates, Segments: segment.New(&store.Segments, time.Now), Mailbox: w.mailbox, Objects: w.objects, Presence: w.presence, Events: w.events,
		Access: w.access, Keys: w.access, Server: w.access, Operator: w.access, KeyFile: filepath.Join(w.folder, access.OperatorFile), Apps: w.access, Services: w.access, Channels: w.channels, Hooks: w.openHooks(store, log), Sources: w.openSources(store, log), Sinks: w.openSinks(store, log), Endpoints: endpoint.New(endpoint.Config{Store: w.endpoints, Now: time.Now}), Log: log,
		Preferences: w.endpoints, Settings: w.access, Audit: audit.New(store, time.Now, log),
		Registry: metrics.New("test"), Draining: w.draining, Version: "test", Node: "node-1",
	}
	for _, f := range change {
		f(&cfg)
	}
	w.cfg = cfg
	w.srv = httptest.NewUnstartedServer(cfg.handler())
	httpapi.Limit(w.srv.Config)
	w.srv.Config.ConnContext = direct.ConnContext
	w.srv.Start()
	t.Cleanup(w.srv.Close)
	t.Cleanup(w.srv.Client().CloseIdleConnections)
	return w
}

func (w *world) openObjects(log *slog.Logger) {
	w.objects = signal.New(signal.Config{Store: sqlitetest.Objects(w.t, log), Log: log})
	w.t.Cleanup(func() { _ = w.objects.Close() })
}

func (w *world) openAccess(log *slog.Logger) *appdb.Store {
	t := w.t
	store := sqlitetest.Apps(t, log)
	var err error
	w.access, err = access.NewRegistry(t.Context(), store, access.Config{}, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.access.Close)
	for _, app := range []string{"shop", "other"} {
		if err := w.access.CreateApp(t.Context(), app, access.AppChange{}); err != nil {
			t.Fatal(err)
		}
	}
	for name, role := range map[string]access.Role{"publish": access.Publish, "read": access.Read, "worker": access.Worker, "admin": access.Admin} {
		w.keys[name] = w.newKey("shop", role)
	}
	w.keys["other"] = w.newKey("other", access.Admin)
	w.key = w.keys["admin"]
	w.folder = t.TempDir()
	if w.operator, _, err = w.access.EnsureOperator(t.Context(), filepath.Join(w.folder, access.OperatorFile)); err != nil {
		t.Fatal(err)
	}
	return store
}

func (w *world) newKey(app string, roles access.Role) string {
	_, secret, err := w.access.CreateKey(w.t.Context(), app, "test", roles)
	if err != nil {
		w.t.Fatal(err)
	}
	return secret
}

// token makes a client's token.
func (w *world) token(app, recipient string) string {
	text, _, err := w.access.MintToken(app, access.TokenRequest{Recipient: recipient, TTL: time.Hour})
	if err != nil {
		w.t.Fatal(err)
	}
	return text
}

// answer is a response read to its end.
type answer struct {
	t      testing.TB
	status int
	header http.Header
	body   string
}

// request is a request that do sends, with the admin's key unless another, or "-" for none, is given.
type request struct {
	method, path, body, key string
	header                  map[string]string
}

func (w *world) do(r request) answer {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), r.method, w.srv.URL+r.path, strings.NewReader(r.body))
	if err != nil {
		w.t.Fatal(err)
	}
	if r.key == "" {
		r.key = w.key
	}
	if r.key != "-" {
		req.Header.Set("Authorization", "Bearer "+r.key)
	}
	if r.body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, v := range r.header {
		req.Header.Set(name, v)
	}
	resp, err := w.srv.Client().Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := apispec.Conforms(req, []byte(r.body), resp, body); err != nil {
		w.t.Error(err)
	}
	return answer{t: w.t, status: resp.StatusCode, header: resp.Header, body: string(body)}
}

func (w *world) get(path string) answer {
	w.t.Helper()
	return w.do(request{method: "GET", path: path})
}

func (w *world) delete(path string) answer {
	w.t.Helper()
	return w.do(request{method: "DELETE", path: path})
}

func (w *world) post(path, body string) answer {
	w.t.Helper()
	return w.do(request{method: "POST", path: path, body: body})
}

// want checks the status.
func (a answer) want(status int) answer {
	a.t.Helper()
	if a.status != status {
		a.t.Fatalf("status %d, want %d: %s", a.status, status, a.body)
	}
	return a
}

type problemJSON struct {
	Type, Title, Detail, Field string
	Status                     int
	RetryAfter                 int `json:"retry_after"`
}

// problem checks that the answer is a problem with this status, slug and field.
func (a answer) problem(status int, slug, field string) problemJSON {
	a.t.Helper()
	a.want(status)
	if ct := a.header.Get("Content-Type"); ct != "application/problem+json" {
		a.t.Errorf("content type %q, want application/problem+json", ct)
	}
	var p problemJSON
	a.into(&p)
	checkProblem(a.t, p, status, slug, field)
	return p
}

func checkProblem(t testing.TB, p problemJSON, status int, slug, field string) {
	t.Helper()
	if p.Type != "/problems/"+slug || p.Status != status || p.Field != field || p.Title == "" || p.Detail == "" {
		t.Errorf("problem %+v, want status %d, type /problems/%s, field %q, a title and a detail", p, status, slug, field)
	}
	if _, ok := problem.Page(slug); !ok {
		t.Errorf("/problems/%s is not explained", slug)
	}
}

func (a answer) into(v any) {
	a.t.Helper()
	if err := json.Unmarshal([]byte(a.body), v); err != nil {
		a.t.Fatalf("%q: %v", a.body, err)
	}
}

func decode[T any](a answer) (v T) {
	a.t.Helper()
	a.into(&v)
	return v
}
