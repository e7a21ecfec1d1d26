package channel_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/channel"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/sending/webpush"
	"godwit.dev/godwit/internal/store/sqlite/appdb"
	"godwit.dev/godwit/internal/store/sqlite/sqlitetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bot is a kind that needs a token.
type bot struct{ closed chan<- string }

type botSender struct {
	token  string
	closed chan<- string
}

func (bot) Fields() []channel.Field {
	return []channel.Field{{Name: "token", Secret: true}, {Name: "url", Address: true}, {Name: "updates", Type: channel.Bool}}
}
func (bot) Auto() bool { return false }
func (bot) Complete(v channel.Values) (channel.Values, error) {
	if v["token"] == "" {
		return nil, &notification.FieldError{Field: "token", Problem: "is required"}
	}
	return nil, nil
}
func (bot) Shown(channel.Values) map[string]string { return nil }
func (b bot) Open(_ string, v channel.Values) (push.Sender, error) {
	return &botSender{v["token"], b.closed}, nil
}

func (*botSender) Send(context.Context, push.Request) (push.Receipt, error) {
	return push.Receipt{}, nil
}
func (s *botSender) Close() error { s.closed <- s.token; return nil }

// world has the apps shop and other in one file, and two processes on it.
type world struct {
	server, cli *channel.Service
	log         *strings.Builder
	closed      chan string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{log: &strings.Builder{}, closed: make(chan string, 8)}
	path := sqlitetest.AppsFile(t)
	log := slog.New(slog.NewTextHandler(w.log, nil))
	open := func() (*channel.Service, *appdb.Store) {
		store, err := appdb.Open(t.Context(), path, log)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = store.Close() })
		s, err := channel.New(t.Context(), &store.Channels, map[push.Channel]channel.Kind{
			push.WebPush: webpush.Kind{}, push.Telegram: bot{w.closed},
		}, log)
		if err != nil {
			t.Fatal(err)
		}
		return s, store
	}
	var store *appdb.Store
	w.server, store = open()
	w.cli, _ = open()
	for _, app := range []string{"shop", "other"} {
		if err := store.CreateApp(t.Context(), access.App{Name: app}); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

func set(t *testing.T, s *channel.Service, app string, ch push.Channel, v channel.Values) channel.Info {
	t.Helper()
	info, _, err := s.Set(t.Context(), app, ch, channel.Change{Values: v})
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func TestWebPushKeyIsMadeOnceForEachApp(t *testing.T) {
	w := newWorld(t)
	keys := map[string]bool{}
	for _, app := range []string{"shop", "other"} {
		for _, s := range []*channel.Service{w.server, w.cli, w.server} {
			k, err := s.WebPushKey(t.Context(), app)
			if err != nil || k == "" {
				t.Fatal(k, err)
			}
			keys[k] = true
		}
	}
	if len(keys) != 2 {
		t.Errorf("%d keys for two apps", len(keys))
	}
	if _, err := w.server.WebPushKey(t.Context(), "nobody"); !errors.Is(err, access.ErrUnknownApp) {
		t.Errorf("key of no app: %v", err)
	}
}

func TestCredentialsNeverComeOut(t *testing.T) {
	w := newWorld(t)
	info := set(t, w.server, "shop", push.Telegram, channel.Values{"token": "123:sekret", "url": "https://u"})
	if !slices.Equal(info.Credentials, []string{"token"}) || info.Settings["url"] != "https://u" || !info.Enabled {
		t.Errorf("info %+v", info)
	}
	set(t, w.server, "shop", push.WebPush, channel.Values{"subject": "mailto:a@b.example"})
	_, _, err := w.server.Set(t.Context(), "shop", push.Telegram, channel.Change{Values: channel.Values{"token": strings.Repeat("sekret", 9000)}})
	shown := fmt.Sprintf("%v %+v %#v %v %v", w.server.List("shop"), info, channel.Values{"token": "sekret"}, err, w.log)
	if strings.Contains(shown, "sekret") || err == nil {
		t.Errorf("shown: %s", shown)
	}
	if got := w.server.List("other"); len(got) != 2 || got[0].Configured || len(got[0].Credentials) != 0 {
		t.Errorf("the other app sees %+v", got)
	}
}

func TestSettingsThatAreNotNamedStay(t *testing.T) {
	w := newWorld(t)
	set(t, w.server, "shop", push.Telegram, channel.Values{"token": "t", "url": "https://u", "updates": "true"})
	off := false
	info, _, err := w.server.Set(t.Context(), "shop", push.Telegram, channel.Change{Enabled: &off, Values: channel.Values{"url": ""}})
	if err != nil || info.Enabled || len(info.Credentials) != 1 || len(info.Settings) != 1 || info.Settings["updates"] != true {
		t.Errorf("%+v, %v", info, err)
	}
	if _, err := w.server.Sender(t.Context(), "shop", push.Telegram); !errors.Is(err, channel.ErrDisabled) {
		t.Errorf("sender of a disabled channel: %v", err)
	}
}

// A person who may change a channel must not be able to read its credentials at another server.
func TestStoredCredentialsGoToNoOtherServer(t *testing.T) {
	w := newWorld(t)
	set(t, w.server, "shop", push.Telegram, channel.Values{"token": "t", "url": "https://u"})
	for _, c := range []struct {
		to      channel.Values
		refused bool
	}{
		{channel.Values{"url": "https://evil"}, true},
		{channel.Values{"url": "https://evil", "updates": "true"}, true},
		{channel.Values{"url": "https://u", "updates": "true"}, false},
		{channel.Values{"url": "https://v", "token": "t"}, false},
		{channel.Values{"url": ""}, false}, // the provider's own
		{channel.Values{"url": "https://evil"}, true},
	} {
		_, _, err := w.server.Set(t.Context(), "shop", push.Telegram, channel.Change{Values: c.to})
		var f *notification.FieldError
		if refused := errors.As(err, &f) && f.Field == "token" && strings.Contains(f.Problem, "give it again"); refused != c.refused || !refused && err != nil {
			t.Errorf("%v: %v", c.to, err)
		}
	}
}

func TestBadSettingsAreRefusedAndChangeNothing(t *testing.T) {
	w := newWorld(t)
	for field, v := range map[string]channel.Values{
		"nonsense": {"token": "t", "nonsense": "x"}, "updates": {"token": "t", "updates": "yes"}, "token": {"url": "https://u"}, "url": {"token": "t", "url": "a\x00"},
	} {
		_, _, err := w.server.Set(t.Context(), "shop", push.Telegram, channel.Change{Values: v})
		var f *notification.FieldError
		if !errors.As(err, &f) || f.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	if info, err := w.server.Get("shop", push.Telegram); err != nil || info.Configured {
		t.Errorf("%+v, %v", info, err)
	}
	if _, err := w.server.Sender(t.Context(), "shop", push.Telegram); !errors.Is(err, channel.ErrNotConfigured) {
		t.Errorf("sender: %v", err)
	}
	for _, err := range []error{w.server.Delete(t.Context(), "shop", "pigeon", setting.Match{}), errOf(w.server.Get("shop", "pigeon")), errOf(w.server.Sender(t.Context(), "shop", "pigeon"))} {
		if !errors.Is(err, channel.ErrUnknown) {
			t.Errorf("unknown channel: %v", err)
		}
	}
}

func errOf[T any](_ T, err error) error { return err }

func TestSenderIsKeptUntilItsSettingsChangeInAnyProcess(t *testing.T) {
	w := newWorld(t)
	set(t, w.cli, "shop", push.Telegram, channel.Values{"token": "old"})
	set(t, w.cli, "other", push.Telegram, channel.Values{"token": "other"})
	if err := w.server.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	sender := func(app string) *botSender {
		s, err := w.server.Sender(t.Context(), app, push.Telegram)
		if err != nil {
			t.Fatal(err)
		}
		return s.(*botSender)
	}
	first, theirs := sender("shop"), sender("other")
	if sender("shop") != first || first.token != "old" {
		t.Error("a second sender was made")
	}
	ctx, stop := context.WithCancel(t.Context())
	changed, done := w.server.Changed(), make(chan struct{})
	go func() { defer close(done); _ = w.server.Run(ctx) }()
	set(t, w.cli, "shop", push.Telegram, channel.Values{"token": "new"})
	<-changed
	if s := sender("shop"); s.token != "new" {
		t.Errorf("token %s", s.token)
	}
	if token := <-w.closed; token != "old" {
		t.Errorf("closed that of token %s", token)
	}
	if sender("other") != theirs {
		t.Error("the other app's sender was made anew")
	}
	if apps := w.server.Apps(push.Telegram); !slices.Equal(apps, []string{"other", "shop"}) {
		t.Errorf("apps %v", apps)
	}
	stop()
	<-done
	w.server.Close()
	if len(w.closed) != 2 {
		t.Errorf("closed %d of the 2 that were left", len(w.closed))
	}
}

func TestDeletedAppTakesItsCredentialsAlong(t *testing.T) {
	w := newWorld(t)
	store := sqlitetest.Apps(t, slog.New(slog.DiscardHandler))
	for _, app := range []string{"a", "b"} {
		if err := store.CreateApp(t.Context(), access.App{Name: app}); err != nil {
			t.Fatal(err)
		}
		if err := store.Channels.Update(t.Context(), app, string(push.Telegram), func(r *channel.Record, _ int) error { r.Values["token"] = app; return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.DeleteApp(t.Context(), "a", nil); err != nil {
		t.Fatal(err)
	}
	list, err := store.Channels.All(t.Context())
	if err != nil || len(list) != 1 || list[0].App != "b" {
		t.Errorf("left: %d, %v", len(list), err)
	}
	set(t, w.server, "shop", push.Telegram, channel.Values{"token": "t"})
	if err := w.server.Delete(t.Context(), "shop", push.Telegram, setting.Match{}); err != nil {
		t.Error(err)
	}
	if err := w.server.Delete(t.Context(), "shop", push.Telegram, setting.Match{}); !errors.Is(err, channel.ErrNotConfigured) {
		t.Errorf("deleted twice: %v", err)
	}
}
