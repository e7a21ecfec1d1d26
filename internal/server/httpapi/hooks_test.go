package httpapi_test

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/access/urlguard"
	"godwit.dev/godwit/internal/feeds/event"
	"godwit.dev/godwit/internal/feeds/hook"
	"godwit.dev/godwit/internal/sending/sendertest/hookserver"
	"godwit.dev/godwit/internal/sending/webhook"
	"godwit.dev/godwit/internal/store/sqlite/appdb"
)

// noProgress discards the progress of hooks.
type noProgress struct{}

func (noProgress) HookProgress(context.Context, string) ([]hook.Progress, error) { return nil, nil }
func (noProgress) OwnHookProgress(context.Context, string) (int64, []hook.Progress, error) {
	return 1, nil, nil
}

func (noProgress) SaveHookProgress(context.Context, []hook.Saving) ([]string, error) {
	return nil, nil
}

// openHooks starts real hooks on a store; they post with w.outside.
func (w *world) openHooks(store *appdb.Store, log *slog.Logger) *hook.Service {
	s, err := hook.New(w.t.Context(), hook.Config{
		Store: &store.Hooks, Progress: noProgress{}, Events: w.events, Log: log, Poster: webhook.Hooks{Poster: webhook.NewPoster(w.outside, urlguard.All)},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Run(ctx) }()
	w.t.Cleanup(func() { cancel(); <-done })
	return s
}

type hookView struct {
	Name, URL, State, Cursor, Secret string
	Types                            []string
	Secrets                          int
	Delivered                        int
}

func TestHookPostsEventsAndHidesItsSecret(t *testing.T) {
	w := newWorld(t)
	receiver := hookserver.Start("")
	t.Cleanup(receiver.Close)
	made := decode[hookView](w.put("/v1/hooks/billing", `{"url":"`+receiver.URL+`","types":["acked","expired"]}`).want(http.StatusCreated))
	if !strings.HasPrefix(made.Secret, "whsec_") || made.State != "active" || made.Secrets != 1 || len(made.Types) != 2 {
		t.Fatalf("%+v", made)
	}
	receiver.Secret(made.Secret)
	next := receiver.Next()
	w.events.Emit([]event.Event{{App: "shop", Type: event.Stored, To: "a"}, {App: "other", Type: event.Acked, To: "a"}, {App: "shop", Type: event.Acked, Note: "n", To: "a"}})
	<-next
	took := receiver.Took()
	if len(took) != 1 || !strings.Contains(took[0].Body, `"type":"acked"`) {
		t.Fatalf("took %+v, refused %v", took, receiver.Refused())
	}
	again := w.put("/v1/hooks/billing", `{"url":"`+receiver.URL+`"}`).want(http.StatusOK)
	for _, a := range []answer{again, w.get("/v1/hooks/billing").want(http.StatusOK), w.get("/v1/hooks").want(http.StatusOK)} {
		if strings.Contains(a.body, made.Secret) || !strings.Contains(a.body, `"secrets":1`) {
			t.Errorf("shows %s", a.body)
		}
	}
	next = receiver.Next()
	w.post("/v1/hooks/billing/replay", `{"since":"0"}`).want(http.StatusOK)
	<-next
	if strings.Contains(w.log.String(), made.Secret) || strings.Contains(w.log.String(), "k3y") {
		t.Error("the log shows a secret")
	}
	w.do(request{method: "GET", path: "/v1/hooks/billing", key: w.keys["other"]}).problem(http.StatusNotFound, "not-found", "")
	w.delete("/v1/hooks/billing").want(http.StatusNoContent)
	w.delete("/v1/hooks/billing").problem(http.StatusNotFound, "not-found", "")
}

func TestBadHooksNameTheirField(t *testing.T) {
	w := newWorld(t)
	for body, field := range map[string]string{
		`{}`: "url", `{"url":7}`: "url", `{"url":"ftp://x"}`: "url", `{"url":"https://a.example","types":["eaten"]}`: "types",
		`{"url":"https://a.example","types":"acked"}`: "types", `{"url":"https://a.example","secrets":["x"]}`: "secrets",
		`{"url":"https://a.example","enabled":1}`: "enabled", `{"url":"https://a.example","to":1}`: "to",
	} {
		w.put("/v1/hooks/a", body).problem(http.StatusBadRequest, "bad-input", field)
	}
	w.put("/v1/hooks/a%20b", `{"url":"https://a.example"}`).problem(http.StatusBadRequest, "bad-input", "name")
	w.put("/v1/hooks/a", `{"url":"https://a.example","enabled":false}`).want(http.StatusCreated)
	if v := decode[hookView](w.get("/v1/hooks/a")); v.State != "disabled" {
		t.Errorf("%+v", v)
	}
	w.post("/v1/hooks/a/replay", `{}`).problem(http.StatusBadRequest, "bad-input", "since")
	w.post("/v1/hooks/a/replay", `{"since":"x"}`).problem(http.StatusBadRequest, "bad-input", "since")
	w.post("/v1/hooks/b/replay", `{"since":"0"}`).problem(http.StatusNotFound, "not-found", "")
}

func TestAHookIsTriedWithoutAnEvent(t *testing.T) {
	w := newWorld(t)
	receiver := hookserver.Start("")
	t.Cleanup(receiver.Close)
	made := decode[hookView](w.put("/v1/hooks/billing", `{"url":"`+receiver.URL+`"}`).want(http.StatusCreated))
	receiver.Secret(made.Secret)
	type said struct {
		OK              bool
		Outcome, Detail string
	}
	if got := decode[said](w.post("/v1/hooks/billing/test", "").want(http.StatusOK)); !got.OK || got.Outcome != "accepted" {
		t.Errorf("%+v", got)
	}
	if took := receiver.Took(); len(took) != 1 || !strings.Contains(took[0].Body, `"type":"test"`) || !strings.Contains(took[0].Body, `"app":"shop"`) {
		t.Errorf("posted %+v", took)
	}
	if h := decode[hookView](w.get("/v1/hooks/billing").want(http.StatusOK)); h.Delivered != 0 || h.State != "active" {
		t.Errorf("the test counts: %+v", h)
	}
	receiver.Behave(hookserver.Behaviour{Status: http.StatusServiceUnavailable})
	if got := decode[said](w.post("/v1/hooks/billing/test", "").want(http.StatusOK)); got.OK || got.Outcome != "retry" || got.Detail == "" {
		t.Errorf("of one that is not well: %+v", got)
	}
	w.post("/v1/hooks/none/test", "").problem(http.StatusNotFound, "not-found", "")
}
