package welcome_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/template"
	"godwit.dev/godwit/internal/campaigns/welcome"
	"godwit.dev/godwit/internal/sending/channel"
	"godwit.dev/godwit/internal/sending/push"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// site has an app shop that greets with the template hello, and another app without greetings.
type site struct {
	mu      sync.Mutex
	sent    []push.Request
	refuse  error
	holds   bool // the push service does not answer until hold is closed
	hold    chan struct{}
	log     bytes.Buffer
	setting map[string]any
}

func (s *site) Get(app string, _ push.Channel) (channel.Info, error) {
	if app != "shop" {
		return channel.Info{}, nil
	}
	return channel.Info{Settings: s.setting}, nil
}

func (s *site) Sender(context.Context, string, push.Channel) (push.Sender, error) { return s, nil }

func (s *site) Send(ctx context.Context, r push.Request) (push.Receipt, error) {
	if s.holds {
		select {
		case <-s.hold:
		case <-ctx.Done():
			return push.Receipt{}, context.Cause(ctx)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = append(s.sent, r)
	return push.Receipt{}, s.refuse
}

type shelf struct{}

func (shelf) Get(_ context.Context, app, name string) (*template.Template, error) {
	if app != "shop" || name != "hello" {
		return nil, template.ErrUnknown
	}
	return &template.Template{Content: template.Content{
		Content: push.Content{Title: "Hello {{name|reader}}", URL: "https://example.org/"}, Locales: map[string]template.Variant{"fr": {Title: "Bonjour {{name|lecteur}}"}},
	}}, nil
}

// run runs the service until all greetings are sent that can be.
func (s *site) run(t *testing.T, greet func(*welcome.Service)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s.hold = make(chan struct{})
		w := welcome.New(welcome.Config{Channels: s, Templates: shelf{}, Now: time.Now, Log: slog.New(slog.NewTextHandler(&s.log, nil))})
		ctx, stop := context.WithCancel(t.Context())
		var ran sync.WaitGroup
		ran.Go(func() { _ = w.Run(ctx) })
		synctest.Wait()
		greet(w)
		synctest.Wait()
		time.Sleep(time.Minute) // by the test's own clock: sends without an answer time out
		stop()
		ran.Wait()
	})
}

func browser(change ...func(*audience.Endpoint)) audience.Endpoint {
	e := audience.Endpoint{ID: audience.NewUUID(), App: "shop", Channel: push.WebPush, Status: audience.Active}
	for _, f := range change {
		f(&e)
	}
	return e
}

func TestSubscriberIsWelcomedInTheirLanguage(t *testing.T) {
	s := &site{setting: map[string]any{welcome.Setting: "hello"}}
	one, two := browser(), browser(func(e *audience.Endpoint) {
		e.Locale, e.Attributes = "fr-CA", audience.Attributes{"name": audience.Text("Zoé")}
	})
	s.run(t, func(w *welcome.Service) {
		w.Greet(one)
		w.Greet(two)
		w.Greet(browser(func(e *audience.Endpoint) { e.App = "other" }))
		w.Greet(browser(func(e *audience.Endpoint) { e.Channel = push.Telegram }))
		w.Greet(browser(func(e *audience.Endpoint) { e.Status = audience.Disabled }))
	})
	said := make(map[string]string)
	for _, r := range s.sent {
		if r.App != "shop" || r.ID != "welcome-"+r.Endpoint || r.Content.URL != "https://example.org/" || r.ExpiresAt.IsZero() {
			t.Errorf("sent %+v", r)
		}
		said[r.Endpoint] = r.Content.Title
	}
	if len(s.sent) != 2 || said[one.ID.String()] != "Hello reader" || said[two.ID.String()] != "Bonjour Zoé" {
		t.Errorf("said: %v", said)
	}
	if s.log.Len() > 0 {
		t.Errorf("logged: %s", &s.log)
	}
}

func TestAnAppThatSaysNothingGreetsNobody(t *testing.T) {
	s := &site{}
	s.run(t, func(w *welcome.Service) { w.Greet(browser()) })
	if len(s.sent) > 0 || s.log.Len() > 0 {
		t.Errorf("sent %v: %s", s.sent, &s.log)
	}
}

func TestWithheldWelcomeIsLogged(t *testing.T) {
	for what, s := range map[string]*site{
		"no such template":           {setting: map[string]any{welcome.Setting: "gone"}},
		"the push service is closed": {setting: map[string]any{welcome.Setting: "hello"}, refuse: errors.New("the push service is closed")},
		"did not answer in 10s":      {setting: map[string]any{welcome.Setting: "hello"}, holds: true},
	} {
		s.run(t, func(w *welcome.Service) { w.Greet(browser()) })
		if got := s.log.String(); !strings.Contains(got, "welcome not sent") || !strings.Contains(got, what) {
			t.Errorf("%s is logged as %q", what, got)
		}
	}
}

func TestAFloodOfSubscribersHoldsNobodyUp(t *testing.T) {
	s := &site{setting: map[string]any{welcome.Setting: "hello"}, holds: true}
	const all = 1500
	s.run(t, func(w *welcome.Service) {
		for range all {
			w.Greet(browser())
		}
		close(s.hold)
	})
	left := strings.Count(s.log.String(), "welcome left out")
	if len(s.sent) < 1000 || len(s.sent)+left != all {
		t.Errorf("%d are greeted and %d left out, of %d", len(s.sent), left, all)
	}
	if !strings.Contains(s.log.String(), fmt.Sprint(1000)) {
		t.Errorf("the log does not say how many may wait")
	}
}
