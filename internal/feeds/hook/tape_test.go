package hook_test

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"godwit.dev/godwit/internal/feeds/event"
	"godwit.dev/godwit/internal/feeds/hook"
)

// tape is an event log, a store and a poster in memory, for tests that simulate days.
type tape struct {
	mu     sync.Mutex
	events []event.Event
	news   chan struct{}
	hooks  map[[2]string]hook.Hook
	saved  map[[2]string]hook.Progress
	answer func(attempt int) error
	posts  []post
}

type post struct {
	id, body string
	at       time.Time
}

func newTape() *tape {
	return &tape{news: make(chan struct{}), hooks: map[[2]string]hook.Hook{}, saved: map[[2]string]hook.Progress{}}
}

func (t *tape) Emit(evs []event.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range evs {
		e.ID = uint64(len(t.events) + 1)
		t.events = append(t.events, e)
	}
	close(t.news)
	t.news = make(chan struct{})
}

func (t *tape) Last() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return uint64(len(t.events))
}

func (t *tape) Read(ctx context.Context, app string, since uint64, limit int, _ bool) ([]event.Event, uint64, error) {
	for {
		t.mu.Lock()
		evs := slices.Clone(t.events[since:])
		news := t.news
		t.mu.Unlock()
		if len(evs) > 0 {
			evs = evs[:min(len(evs), limit)]
			last := evs[len(evs)-1].ID
			return slices.DeleteFunc(evs, func(e event.Event) bool { return e.App != app }), last, nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return nil, since, ctx.Err()
		}
	}
}

func (t *tape) All(context.Context) (list []hook.Hook, _ error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, h := range t.hooks {
		list = append(list, h)
	}
	return list, nil
}

func (t *tape) Update(_ context.Context, app, name string, change func(*hook.Hook, int) error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	h, ok := t.hooks[[2]string{app, name}]
	if !ok {
		h = hook.Hook{App: app, Name: name}
	}
	n := 0
	for of := range t.hooks {
		if of[0] == app {
			n++
		}
	}
	if err := change(&h, n); err != nil {
		return err
	}
	t.hooks[[2]string{app, name}] = h
	return nil
}

func (t *tape) Delete(_ context.Context, app, name string, check func(*hook.Hook) error) (bool, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	h, ok := t.hooks[[2]string{app, name}]
	if ok {
		if err := check(&h); err != nil {
			return false, err
		}
	}
	delete(t.hooks, [2]string{app, name})
	return ok, nil
}

func (t *tape) Watch(ctx context.Context, _ func()) error { <-ctx.Done(); return nil }

func (t *tape) HookProgress(_ context.Context, app string) (list []hook.Progress, _ error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for of, p := range t.saved {
		if app == "" || of[0] == app {
			list = append(list, p)
		}
	}
	return list, nil
}

func (t *tape) OwnHookProgress(ctx context.Context, app string) (int64, []hook.Progress, error) {
	list, err := t.HookProgress(ctx, app)
	return 1, list, err
}

func (t *tape) SaveHookProgress(_ context.Context, list []hook.Saving) ([]string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range list {
		for _, name := range s.Forget {
			delete(t.saved, [2]string{s.App, name})
		}
		for _, p := range s.Save {
			t.saved[[2]string{s.App, p.Name}] = p
		}
	}
	return nil, nil
}

func (*tape) Check(string, []string) error { return nil }

func (*tape) NewSecret() string { return "made" }

func (t *tape) Post(_ context.Context, _ []string, _, id string, body []byte) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.posts = append(t.posts, post{id, string(body), time.Now()})
	if t.answer != nil {
		return t.answer(len(t.posts))
	}
	return nil
}

func (t *tape) emit(app string, types ...event.Type) {
	for _, typ := range types {
		e := event.Event{App: app, Type: typ, At: time.Now(), Note: "n", To: "ann"}
		if typ == event.StepAccepted {
			e.Channel = "fcm"
		}
		t.Emit([]event.Event{e})
	}
}

func (t *tape) posted() (ids []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.posts {
		ids = append(ids, p.id)
	}
	return ids
}

// run starts hooks on a tape; stop stops them.
func (t *tape) run(tt *testing.T) (s *hook.Service, stop func()) {
	tt.Helper()
	return t.runTo(tt, t)
}

// runTo is run with another poster.
func (t *tape) runTo(tt *testing.T, to hook.Poster) (s *hook.Service, stop func()) {
	tt.Helper()
	s, err := hook.New(tt.Context(), hook.Config{Store: t, Progress: t, Events: t, Poster: to, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		tt.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Run(ctx) }()
	return s, func() { cancel(); <-done }
}
