package storetest

import (
	"context"
	"reflect"
	"slices"
	"time"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/feeds/event"
	"godwit.dev/godwit/internal/feeds/hook"
	"godwit.dev/godwit/internal/sending/channel"
	"godwit.dev/godwit/internal/sending/push"
)

var hookCases = map[string]func(e *appEnv){
	"AHookIsKeptAsItWasMadeAndChanged": hookIsKept,
	"HooksOfAppsAreApart":              hooksApart,
}

func hookIsKept(e *appEnv) {
	ctx := e.Context()
	e.app("shop")
	made := hook.Hook{
		App: "shop", Name: "crm", URL: "https://crm.example/?k=1", Types: []event.Type{event.Acked, event.Failed}, Secrets: []string{"whsec_a", "whsec_b"},
		Enabled: true, CreatedAt: time.UnixMilli(1_700_000_000_123).UTC(), UpdatedAt: time.UnixMilli(1_700_000_000_456).UTC(),
		From: 1<<62 + 7, FromAt: time.UnixMilli(1_700_000_000_789).UTC(),
	}
	e.ok(e.s.UpdateHook(ctx, "shop", "crm", func(h *hook.Hook, n int) error {
		if !reflect.DeepEqual(*h, hook.Hook{App: "shop", Name: "crm"}) || n != 0 {
			e.Errorf("a new hook is %+v beside %d", h, n)
		}
		*h = made
		return nil
	}))
	e.s = e.reopen()
	e.ok(e.s.UpdateHook(ctx, "shop", "crm", func(h *hook.Hook, n int) error {
		if !reflect.DeepEqual(*h, made) || n != 0 {
			e.Errorf("got %+v beside %d, want %+v alone", h, n, made)
		}
		h.Enabled, h.Types = false, nil
		return nil
	}))
	if err := e.s.UpdateHook(ctx, "shop", "crm", func(h *hook.Hook, _ int) error { h.URL = "x"; return context.Canceled }); err == nil {
		e.Error("a change that failed was taken")
	}
	made.Enabled, made.Types = false, nil
	if list, err := e.s.Hooks(ctx); err != nil || !reflect.DeepEqual(list, []hook.Hook{made}) {
		e.Errorf("got %+v, %v; want %+v", list, err, made)
	}
}

func hooksApart(e *appEnv) {
	ctx := e.Context()
	nothing := func(*hook.Hook, int) error { return nil }
	for _, app := range []string{"a", "b"} {
		e.app(app)
		for i, name := range []string{"one", "two"} {
			e.ok(e.s.UpdateHook(ctx, app, name, func(_ *hook.Hook, n int) error {
				if n != i {
					e.Errorf("%s of %s is made beside %d, want %d", name, app, n, i)
				}
				return nil
			}))
		}
	}
	e.fails(map[string]struct{ err, want error }{"hook of no app": {e.s.UpdateHook(ctx, "c", "one", nothing), access.ErrUnknownApp}})
	for _, d := range []struct {
		app, name string
		want      bool
	}{{"a", "one", true}, {"a", "one", false}, {"c", "two", false}} {
		if found, err := e.s.DeleteHook(ctx, d.app, d.name); err != nil || found != d.want {
			e.Errorf("delete %s of %s: %t, %v", d.name, d.app, found, err)
		}
	}
	list, err := e.s.Hooks(ctx)
	e.ok(err)
	var left []string
	for _, h := range list {
		left = append(left, h.App+"/"+h.Name)
	}
	if slices.Sort(left); !slices.Equal(left, []string{"a/two", "b/one", "b/two"}) {
		e.Errorf("left %v", left)
	}
}

var channelCases = map[string]func(e *appEnv){
	"SettingsOfAChannelAreKeptAsTheyWereMadeAndChanged": channelIsKept,
	"ChannelsOfAppsAreApart":                            channelsApart,
}

func channelIsKept(e *appEnv) {
	ctx := e.Context()
	e.app("shop")
	at := time.UnixMilli(1_700_000_000_123).UTC()
	e.ok(e.s.UpdateChannel(ctx, "shop", push.WebPush, func(r *channel.Record) error {
		if !r.Enabled || len(r.Values) != 0 || r.App != "shop" || r.Channel != push.WebPush {
			e.Errorf("new settings are %+v", r)
		}
		r.Values["subject"], r.Values["key"], r.UpdatedAt = "mailto:a@example.org", "secret", at
		return nil
	}))
	e.s = e.reopen()
	e.ok(e.s.UpdateChannel(ctx, "shop", push.WebPush, func(r *channel.Record) error {
		r.Enabled, r.UpdatedAt = false, at.Add(time.Second)
		delete(r.Values, "subject")
		return nil
	}))
	if err := e.s.UpdateChannel(ctx, "shop", push.WebPush, func(r *channel.Record) error { r.Enabled = true; return context.Canceled }); err == nil {
		e.Error("a change that failed was taken")
	}
	want := []channel.Record{{App: "shop", Channel: push.WebPush, Values: channel.Values{"key": "secret"}, UpdatedAt: at.Add(time.Second)}}
	if list, err := e.s.Channels(ctx); err != nil || !reflect.DeepEqual(list, want) {
		e.Errorf("got %+v, %v; want %+v", list, err, want)
	}
}

func channelsApart(e *appEnv) {
	ctx := e.Context()
	nothing := func(*channel.Record) error { return nil }
	for _, app := range []string{"a", "b"} {
		e.app(app)
		e.ok(e.s.UpdateChannel(ctx, app, push.WebPush, nothing))
		e.ok(e.s.UpdateChannel(ctx, app, push.Telegram, nothing))
	}
	e.fails(map[string]struct{ err, want error }{"channel of no app": {e.s.UpdateChannel(ctx, "c", push.WebPush, nothing), access.ErrUnknownApp}})
	for i, want := range []bool{true, false} {
		if found, err := e.s.DeleteChannel(ctx, "a", push.WebPush); err != nil || found != want {
			e.Errorf("deletion %d: %t, %v", i, found, err)
		}
	}
	if list, err := e.s.Channels(ctx); err != nil || len(list) != 3 {
		e.Errorf("%d left, %v; want 3", len(list), err)
	}
}
