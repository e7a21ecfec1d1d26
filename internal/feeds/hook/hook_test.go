package hook_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/access/urlguard"
	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/feeds/event"
	"godwit.dev/godwit/internal/feeds/hook"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/provider"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/sending/sendertest/hookserver"
	"godwit.dev/godwit/internal/sending/webhook"
	"godwit.dev/godwit/internal/store/sqlite/appdb"
	"godwit.dev/godwit/internal/store/sqlite/eventdb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func set(t *testing.T, s *hook.Service, name string, c hook.Change) hook.Info {
	t.Helper()
	if c.URL == "" {
		c.URL = "https://a.example"
	}
	info, _, _, err := s.Set(t.Context(), "shop", name, c)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func TestFailingHookIsTriedEverMoreRarelyAndThenPaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tape := newTape()
		tape.answer = func(int) error { return &push.RetryError{Reason: "down"} }
		s, stop := tape.run(t)
		defer stop()
		set(t, s, "a", hook.Change{})
		tape.emit("shop", event.Acked)
		begun := time.Now()
		synctest.Wait()
		time.Sleep(30 * time.Minute)
		if got := figures(t, s); !strings.HasPrefix(got, "lag=1800 ") || !strings.Contains(got, "failing=1") {
			t.Errorf("an event of half an hour ago fails, and metrics say %s", got)
		}
		if n := len(tape.posted()); n < 4 || n > 6 {
			t.Errorf("%d attempts in half an hour", n)
		}
		if i, _ := s.Get(t.Context(), "shop", "a"); i.State != hook.Failing || i.LastError != "down" || i.NextAt.Before(time.Now()) || !i.Progress.Failing.Equal(begun) {
			t.Errorf("%+v", i)
		}
		time.Sleep(6 * 24 * time.Hour)
		synctest.Wait()
		i, _ := s.Get(t.Context(), "shop", "a")
		if i.State != hook.Paused || i.PausedAt.Sub(begun) < 5*24*time.Hour || i.Attempts > 40 {
			t.Errorf("after six days: %+v", i)
		}
		attempts := len(tape.posted())
		if got := figures(t, s); !strings.HasPrefix(got, "lag=0 ") || !strings.Contains(got, "paused=1") {
			t.Errorf("paused, and metrics say %s", got)
		}
		time.Sleep(24 * time.Hour)
		if n := len(tape.posted()); n != attempts {
			t.Errorf("%d attempts while paused", n-attempts)
		}
		tape.mu.Lock()
		tape.answer = nil
		tape.mu.Unlock()
		if i := set(t, s, "a", hook.Change{}); i.State != hook.Active {
			t.Errorf("set again: %+v", i)
		}
		synctest.Wait()
		if i, _ := s.Get(t.Context(), "shop", "a"); i.Delivered != 1 || i.LastError != "" {
			t.Errorf("gone on: %+v", i)
		}
		ids := slices.Compact(tape.posted())
		if len(ids) != 1 {
			t.Errorf("attempts of one event had the ids %v", ids)
		}
		want := fmt.Sprintf("lag=0 accepted=1 failed=%d active=1 disabled=0 failing=0 paused=0", attempts)
		if got := figures(t, s); got != want {
			t.Errorf("metrics %s, want %s", got, want)
		}
	})
}

// figures are the metrics of hooks by their label.
func figures(t *testing.T, s *hook.Service) string {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(s)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var parts []string
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := "lag"
			if len(m.GetLabel()) > 0 {
				name = m.GetLabel()[0].GetValue()
			}
			parts = append(parts, fmt.Sprintf("%s=%v", name, m.GetCounter().GetValue()+m.GetGauge().GetValue()))
		}
	}
	return strings.Join(parts, " ")
}

func TestReceiverSaysWhenToComeBackAndWhenNever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tape := newTape()
		tape.answer = func(n int) error {
			switch n {
			case 1:
				return &push.RetryError{After: time.Hour, Reason: "busy"}
			case 3:
				return &push.GoneError{Reason: "410"}
			}
			return nil
		}
		s, stop := tape.run(t)
		defer stop()
		set(t, s, "a", hook.Change{})
		tape.emit("shop", event.Acked, event.Expired)
		time.Sleep(59 * time.Minute)
		if n := len(tape.posted()); n != 1 {
			t.Errorf("%d attempts before the hour was over", n)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if i, _ := s.Get(t.Context(), "shop", "a"); i.State != hook.Paused || i.Delivered != 1 || len(tape.posted()) != 3 {
			t.Errorf("%d posts, %+v", len(tape.posted()), i)
		}
	})
}

func TestHookGetsItsTypesOfItsAppFromNowOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tape := newTape()
		tape.emit("shop", event.Acked)
		s, stop := tape.run(t)
		set(t, s, "a", hook.Change{Types: []event.Type{event.Acked, event.Expired, event.StepAccepted}})
		tape.emit("shop", event.Stored, event.Acked)
		tape.emit("other", event.Acked)
		tape.emit("shop", event.Expired, event.Online, event.StepAccepted)
		synctest.Wait()
		stop()
		if got := fmt.Sprint(tape.posted()); got != "[shop.a.3 shop.a.5 shop.a.7]" {
			t.Errorf("posted %s", got)
		}
		if body := tape.posts[0].body; !strings.Contains(body, `"event_id":"3","type":"acked"`) || !strings.Contains(body, `"id":"n","to":"ann","app":"shop"}`) {
			t.Errorf("body %s", body)
		}
		if body := tape.posts[2].body; !strings.Contains(body, `"type":"step_accepted"`) || !strings.Contains(body, `"id":"n","to":"ann","channel":"fcm","app":"shop"}`) {
			t.Errorf("body %s", body)
		}
		if p := tape.saved[[2]string{"shop", "a"}]; p.Cursor != 7 || p.Delivered != 3 {
			t.Errorf("saved %+v", p)
		}
	})
}

// world is hooks on real files with a real receiver.
type world struct {
	t        *testing.T
	dir      string
	apps     *appdb.Store
	events   *eventdb.Log
	receiver *hookserver.Server
	secret   string
	service  *hook.Service
	stop     func()
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), secret: webhook.NewSecret()}
	w.receiver = hookserver.Start(w.secret)
	t.Cleanup(w.receiver.Close)
	w.open()
	if err := w.apps.CreateApp(t.Context(), access.App{Name: "shop"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.stop() })
	return w
}

func (w *world) open() {
	w.t.Helper()
	log := slog.New(slog.DiscardHandler)
	must := func(err error) {
		w.t.Helper()
		if err != nil {
			w.t.Fatal(err)
		}
	}
	var err error
	w.apps, err = appdb.Open(w.t.Context(), filepath.Join(w.dir, "apps.db"), log)
	must(err)
	w.events, err = eventdb.Open(w.t.Context(), filepath.Join(w.dir, "events.db"), eventdb.Options{})
	must(err)
	client := provider.Client(urlguard.All)
	w.service, err = hook.New(w.t.Context(), hook.Config{
		Store: &w.apps.Hooks, Progress: w.events, Events: w.events, Log: log, Poster: webhook.Hooks{Poster: webhook.NewPoster(client, urlguard.All)},
	})
	must(err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = w.service.Run(ctx) }()
	w.stop = func() {
		cancel()
		<-done
		client.CloseIdleConnections()
		_ = w.events.Close()
		_ = w.apps.Close()
		w.stop = func() {}
	}
}

func (w *world) emit(n int) {
	for range n {
		w.events.Emit([]event.Event{{App: "shop", Type: event.Acked, At: time.Now(), Note: "n", To: "ann"}})
	}
}

// wait waits until the receiver has taken n messages.
func (w *world) wait(n int) []hookserver.Message {
	w.t.Helper()
	deadline := time.After(2 * time.Minute)
	for {
		next, took := w.receiver.Next(), w.receiver.Took()
		if len(took) >= n {
			return took
		}
		select {
		case <-next:
		case <-deadline:
			w.t.Fatalf("%d messages of %d came; refused: %v", len(took), n, w.receiver.Refused())
		}
	}
}

func TestHookGoesOnAfterARestartWithoutLossOrRepetition(t *testing.T) {
	w := newWorld(t)
	if _, created, made, err := w.service.Set(t.Context(), "shop", "a", hook.Change{URL: w.receiver.URL, Secrets: []string{w.secret}}); err != nil || !created || made != "" {
		t.Fatal(created, made, err)
	}
	w.emit(20)
	w.wait(20)
	w.stop()
	w.open()
	w.emit(20)
	took := w.wait(40)
	w.stop()
	seen := map[string]bool{}
	for i, m := range took {
		if seen[m.ID] || i > 0 && m.Body < took[i-1].Body {
			t.Errorf("message %d, %s, is out of order or came twice", i, m.ID)
		}
		seen[m.ID] = true
	}
	w.open()
	if i, err := w.service.Get(t.Context(), "shop", "a"); err != nil || i.Delivered != 40 || i.State != hook.Active {
		t.Errorf("%+v, %v", i, err)
	}
}

func TestProgressOfDeletedHooksIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tape := newTape()
		tape.saved[[2]string{"shop", "gone"}] = hook.Progress{App: "shop", Name: "gone", Cursor: 1} // shop has no other hook
		_, stop := tape.run(t)
		time.Sleep(time.Minute)
		stop()
		if left, err := tape.HookProgress(t.Context(), ""); err != nil || len(left) > 0 {
			t.Errorf("left %+v, %v", left, err)
		}
	})
}

func TestReplayPostsLaterEventsAgainWithTheirIDs(t *testing.T) {
	w := newWorld(t)
	if _, _, _, err := w.service.Set(t.Context(), "shop", "a", hook.Change{URL: w.receiver.URL, Secrets: []string{w.secret}}); err != nil {
		t.Fatal(err)
	}
	w.emit(5)
	first := w.wait(5)
	var since uint64
	if _, err := fmt.Sscanf(first[1].ID, "shop.a.%d", &since); err != nil {
		t.Fatal(err)
	}
	if _, err := w.service.Replay(t.Context(), "shop", "a", since); err != nil {
		t.Fatal(err)
	}
	again := w.wait(8)[5:]
	for i := range again {
		if again[i].ID != first[2+i].ID || again[i].Body != first[2+i].Body {
			t.Errorf("again %+v, first %+v", again[i], first[2+i])
		}
	}
	if _, err := w.service.Replay(t.Context(), "shop", "b", 0); !errors.Is(err, hook.ErrUnknown) {
		t.Errorf("replay of no hook: %v", err)
	}
}

func TestHookThatChangesOrEndsStopsWhatItDid(t *testing.T) {
	w := newWorld(t)
	_, _, made, err := w.service.Set(t.Context(), "shop", "a", hook.Change{URL: w.receiver.URL})
	if err != nil || made == "" {
		t.Fatal(made, err)
	}
	w.receiver.Secret(made)
	w.emit(1)
	w.wait(1)
	w.receiver.Behave(hookserver.Behaviour{Hang: true})
	next := w.receiver.Next()
	w.emit(1)
	<-next
	if err := w.service.Delete(t.Context(), "shop", "a", setting.Match{}); err != nil { // while a request hangs
		t.Fatal(err)
	}
	if _, err := w.service.Get(t.Context(), "shop", "a"); !errors.Is(err, hook.ErrUnknown) {
		t.Error(err)
	}
	w.receiver.Behave(hookserver.Behaviour{})
	before := len(w.receiver.Took())
	if i, created, _, err := w.service.Set(t.Context(), "shop", "a", hook.Change{URL: w.receiver.URL, Secrets: []string{made}}); err != nil || !created || i.Delivered != 0 {
		t.Errorf("made anew: %+v %v", i, err)
	}
	w.emit(1)
	if took := w.wait(before + 1); len(took) != before+1 {
		t.Errorf("%d messages came to the new hook", len(took)-before)
	}
	for field, c := range map[string]hook.Change{
		"url": {URL: "ftp://x"}, "secrets": {URL: w.receiver.URL, Secrets: []string{"x"}}, "types": {URL: w.receiver.URL, Types: []event.Type{"eaten"}},
	} {
		_, _, _, err := w.service.Set(t.Context(), "shop", "a", c)
		var f *notification.FieldError
		if !errors.As(err, &f) || f.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	if _, _, _, err := w.service.Set(t.Context(), "nobody", "a", hook.Change{URL: w.receiver.URL}); !errors.Is(err, access.ErrUnknownApp) {
		t.Errorf("hook of no app: %v", err)
	}
}

func TestAnAppHasABoundedNumberOfHooks(t *testing.T) {
	tape := newTape()
	s, stop := tape.run(t)
	defer stop()
	for i := range 32 {
		set(t, s, fmt.Sprint("hook-", i), hook.Change{})
	}
	var bad *notification.FieldError
	if _, _, _, err := s.Set(t.Context(), "shop", "one-more", hook.Change{URL: "https://a.example"}); !errors.As(err, &bad) || bad.Field != "name" {
		t.Errorf("hook 33: %v", err)
	}
	set(t, s, "hook-31", hook.Change{URL: "https://b.example"})
	if _, _, _, err := s.Set(t.Context(), "other", "one-more", hook.Change{URL: "https://a.example"}); err != nil {
		t.Errorf("another app's first: %v", err)
	}
}
