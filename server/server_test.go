package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	godwit "godwit.dev/godwit/clients/go"
	"godwit.dev/godwit/server"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = time.Minute

func start(t testing.TB, o server.Options) *server.Server {
	t.Helper()
	if o.Data == "" {
		o.Data = t.TempDir()
	}
	s, err := server.New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, s) })
	if err := s.App(t.Context(), "shop"); err != nil {
		t.Fatal(err)
	}
	return s
}

func stop(t testing.TB, s *server.Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		t.Error(err)
	}
}

// listen collects the notifications of a recipient; handle decides whether each is acknowledged.
func listen(t *testing.T, s *server.Server, to string, handle godwit.Handler) (got <-chan *godwit.Notification, done <-chan error) {
	t.Helper()
	notes, ended := make(chan *godwit.Notification, 100), make(chan error, 1)
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		ended <- s.Listen(ctx, "shop", to, func(ctx context.Context, n *godwit.Notification) error {
			notes <- n
			if handle == nil {
				return nil
			}
			return handle(ctx, n)
		})
		close(ended)
	}()
	t.Cleanup(func() {
		cancel(errors.New("the test is over"))
		for range ended {
		}
	})
	return notes, ended
}

func next[T any](t *testing.T, from <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(patience):
		t.Fatal("nothing comes")
	}
	return v
}

func TestNotificationsGoFromPublishToListenWithoutAConnection(t *testing.T) {
	s := start(t, server.Options{})
	if addrs := s.Addrs(); len(addrs) > 0 {
		t.Errorf("it listens at %v", addrs)
	}
	at := time.Now()
	receipt, err := s.Publish(t.Context(), "shop", godwit.Publication{To: "ann", ID: "n1", Title: "Hello", Data: []byte(`{"a":1}`), Priority: "high", TTL: time.Hour})
	if err != nil || receipt.ID != "n1" || receipt.Status != "stored" || receipt.Duplicate || receipt.ExpiresAt.Sub(at) < time.Hour-time.Second {
		t.Fatalf("%+v, %v", receipt, err)
	}
	got, _ := listen(t, s, "ann", nil)
	n := next(t, got)
	if n.ID != "n1" || n.Title != "Hello" || string(n.Data) != `{"a":1}` || n.ContentType != "application/json" || n.Priority != "high" || n.Seq != 1 || n.Attempt != 1 || n.CreatedAt.Before(at.Add(-time.Minute)) {
		t.Errorf("%+v", n)
	}
	if receipt, err = s.Publish(t.Context(), "shop", godwit.Publication{To: "ann", ID: "n1", Title: "Hello", Data: []byte(`{"a":1}`), Priority: "high", TTL: time.Hour}); err != nil || !receipt.Duplicate {
		t.Errorf("once more: %+v, %v", receipt, err)
	}
	for i := range 100 {
		if _, err := s.Publish(t.Context(), "shop", godwit.Publication{To: "ann", ID: fmt.Sprint("m", i), Title: "Hi"}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 100 {
		if n := next(t, got); n.ID != fmt.Sprint("m", i) {
			t.Fatalf("got %s, want m%d", n.ID, i)
		}
	}
}

func TestNotificationThatIsNotHandledComesAgain(t *testing.T) {
	s := start(t, server.Options{})
	tries := 0
	got, _ := listen(t, s, "ann", func(context.Context, *godwit.Notification) error {
		if tries++; tries == 1 {
			return godwit.NackAfter(time.Millisecond, errors.New("busy"))
		}
		return nil
	})
	if _, err := s.Publish(t.Context(), "shop", godwit.Publication{To: "ann", ID: "n1", Title: "Hi"}); err != nil {
		t.Fatal(err)
	}
	if first, second := next(t, got), next(t, got); first.ID != second.ID || second.Attempt != 2 {
		t.Errorf("%+v, %+v", first, second)
	}
}

func TestErrorsAreThoseOfTheAPI(t *testing.T) {
	s := start(t, server.Options{})
	for _, c := range []struct {
		app    string
		p      godwit.Publication
		status int
		field  string
	}{
		{"shop", godwit.Publication{To: "..", Title: "Hi"}, http.StatusBadRequest, "to"},
		{"shop", godwit.Publication{To: "ann", Priority: "urgent", Title: "Hi"}, http.StatusBadRequest, "priority"},
		{"shop", godwit.Publication{To: "ann", TTL: 60 * 24 * time.Hour, Title: "Hi"}, http.StatusBadRequest, "ttl"},
		{"nowhere", godwit.Publication{To: "ann", Title: "Hi"}, http.StatusNotFound, ""},
	} {
		_, err := s.Publish(t.Context(), c.app, c.p)
		var known *godwit.Error
		if !errors.As(err, &known) || known.Status != c.status || known.Field != c.field {
			t.Errorf("%+v: %v", c.p, err)
		}
	}
	if err := s.Listen(t.Context(), "nowhere", "ann", nil); err == nil {
		t.Error("somebody may listen in an app that does not exist")
	}
}

func TestHandlerServesTheAPIAndClientsOverWebSocket(t *testing.T) {
	s := start(t, server.Options{})
	outside := httptest.NewServer(s.Handler())
	defer outside.Close()
	key, err := s.Key(t.Context(), "shop", "orders", "publish", "read")
	if err != nil {
		t.Fatal(err)
	}
	client, err := godwit.New(outside.URL, godwit.WithAPIKey(key))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	got, _ := listen(t, s, "ann", nil)
	if _, err := client.Publish(t.Context(), godwit.Publication{To: "ann", ID: "n1", Title: "over HTTP"}); err != nil {
		t.Fatal(err)
	}
	if n := next(t, got); n.Title != "over HTTP" {
		t.Errorf("%+v", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	seen, over := make(chan string, 1), make(chan error, 1)
	go func() {
		over <- client.Listen(ctx, "bob", func(_ context.Context, n *godwit.Notification) error {
			seen <- n.ID
			return nil
		}, godwit.Peek())
	}()
	if _, err := s.Publish(t.Context(), "shop", godwit.Publication{To: "bob", ID: "n2", Title: "Hi"}); err != nil {
		t.Fatal(err)
	}
	if id := next(t, seen); id != "n2" {
		t.Errorf("got %s over WebSocket", id)
	}
	cancel()
	next(t, over)
}

func TestTwoServersInOneProcessAreStrangers(t *testing.T) {
	first, second := start(t, server.Options{Settings: map[string]string{"http_addr": "127.0.0.1:0"}}), start(t, server.Options{Settings: map[string]string{"http_addr": "127.0.0.1:0"}})
	if a, b := first.Addrs()["http_addr"], second.Addrs()["http_addr"]; a == "" || a == b {
		t.Errorf("they listen at %q and %q", a, b)
	}
	gotFirst, _ := listen(t, first, "ann", nil)
	gotSecond, _ := listen(t, second, "ann", nil)
	for name, s := range map[string]*server.Server{"first": first, "second": second} {
		if _, err := s.Publish(t.Context(), "shop", godwit.Publication{To: "ann", ID: name, Title: "Hi"}); err != nil {
			t.Fatal(err)
		}
	}
	if a, b := next(t, gotFirst), next(t, gotSecond); a.ID != "first" || b.ID != "second" {
		t.Errorf("got %s and %s", a.ID, b.ID)
	}
}

func TestTheProcessIsLeftAsItIsUnlessToldOtherwise(t *testing.T) {
	const ours = 1 << 40
	before := debug.SetMemoryLimit(ours)
	defer debug.SetMemoryLimit(before)
	limited := map[string]string{"memory_limit": "900MB"}
	for process, want := range map[bool]int64{false: ours, true: 900 << 20} {
		s := start(t, server.Options{Settings: limited, Process: process})
		if got := debug.SetMemoryLimit(-1); got != want && process || got != ours && !process {
			t.Errorf("process %t: the memory limit is %d, want %d", process, got, want)
		}
		stop(t, s)
		if got := debug.SetMemoryLimit(-1); got != ours {
			t.Errorf("process %t: after the stop the memory limit is %d", process, got)
		}
	}
}

func TestWhatCannotBeStartedIsAnErrorAndLeavesNothingBehind(t *testing.T) {
	for name, c := range map[string]struct {
		o    server.Options
		want string
	}{
		"no folder":     {server.Options{}, "names no folder"},
		"no setting":    {server.Options{Data: "d", Settings: map[string]string{"htpp_addr": ":1"}}, "htpp_addr"},
		"no value":      {server.Options{Data: "d", Settings: map[string]string{"retain": "soon"}}, "retain"},
		"no module":     {server.Options{Data: "d", Modules: []string{"nats", "amqp"}}, `no module "amqp"; there are nats, `},
		"no such thing": {server.Options{Data: "d", Settings: map[string]string{"mqtt_addr": "1883"}}, "mqtt_addr"},
	} {
		if _, err := server.New(c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	taken := start(t, server.Options{Settings: map[string]string{"http_addr": "127.0.0.1:0"}})
	s, err := server.New(server.Options{Data: t.TempDir(), Settings: map[string]string{"http_addr": taken.Addrs()["http_addr"]}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "http_addr") {
		t.Errorf("a taken address: %v", err)
	}
	if _, err := s.Publish(t.Context(), "shop", godwit.Publication{To: "ann", Title: "Hi"}); err == nil || s.Handler() != nil {
		t.Errorf("a server that did not start publishes: %v", err)
	}
	stop(t, s)
}

func TestServerHasTheModulesThatAreChosen(t *testing.T) {
	for _, c := range []struct {
		modules  []string
		channels string // that it has
	}{
		{nil, "apns fcm live telegram webhook webpush"},
		{[]string{"webhook", "nats"}, "live webhook"},
		{[]string{}, "live"},
	} {
		s := start(t, server.Options{Modules: c.modules})
		key, err := s.Key(t.Context(), "shop", "reader", "read")
		if err != nil {
			t.Fatal(err)
		}
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/v1/channels", nil)
		r.Header.Set("Authorization", "Bearer "+key)
		s.Handler().ServeHTTP(w, r)
		var list struct{ Items []struct{ Channel string } }
		if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil {
			t.Fatalf("%v: %s", err, w.Body)
		}
		var have []string
		for _, item := range list.Items {
			have = append(have, item.Channel)
		}
		if got := strings.Join(have, " "); got != c.channels {
			t.Errorf("with modules %q it has the channels %q", c.modules, got)
		}
	}
}

func TestLostFileEndsTheServerWithAnError(t *testing.T) {
	data := t.TempDir()
	s := start(t, server.Options{Data: data})
	files, err := filepath.Glob(filepath.Join(data, "*.db"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		if err := os.Remove(f); err != nil {
			t.Fatal(err)
		}
	}
	if err := next(t, s.Err()); err == nil {
		t.Error("no error says that files are lost")
	}
}

func TestShutdownEndsListeners(t *testing.T) {
	s := start(t, server.Options{})
	_, done := listen(t, s, "ann", nil)
	if _, err := s.Publish(t.Context(), "shop", godwit.Publication{To: "ann", ID: "n", Title: "Hi"}); err != nil {
		t.Fatal(err)
	}
	stop(t, s)
	var refused *godwit.RefusedError
	if err := next(t, done); !errors.As(err, &refused) || refused.Reason != "shutdown" {
		t.Errorf("Listen returned %v", err)
	}
	stop(t, s)
}

// A publication has the API's JSON form, so programs may store one as JSON.
func TestPublicationIsWrittenAsTheAPITakesIt(t *testing.T) {
	p := godwit.Publication{To: "ann", ID: "n", Title: "Hi", TTL: time.Minute}
	b, err := p.RequestBody()
	if want := `{"to":"ann","id":"n","title":"Hi","ttl":"1m0s"}`; err != nil || string(b) != want {
		t.Errorf("%s, %v; want %s", b, err, want)
	}
}
