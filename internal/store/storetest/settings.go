package storetest

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"time"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/campaigns/segment"
	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/feeds/event"
	"godwit.dev/godwit/internal/feeds/hook"
	"godwit.dev/godwit/internal/feeds/sink"
	"godwit.dev/godwit/internal/feeds/sink/clickhouse"
	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/feeds/source/streams"
	"godwit.dev/godwit/internal/sending/channel"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/store/appsql"
)

// kind is a kind of settings, for the test cases that all kinds share.
type kind[T any] struct {
	one, many string
	of        func(*appsql.Store) setting.Store[T]
	empty     func(app, name string) T
	full      T // a setting of app shop with all fields set
	change    func(*T)
	mark      func(one *T, with string) // makes a setting distinguishable from others
	place     func(*T) (app, name string)
}

var (
	madeAt    = time.UnixMilli(1_700_000_000_123).UTC()
	changedAt = time.UnixMilli(1_700_000_000_456).UTC()
)

// settingCases are the cases of all kinds of settings.
func settingCases() map[string]func(e *appEnv) {
	all := map[string]func(e *appEnv){}
	maps.Copy(all, kind[hook.Hook]{
		one: "AHook", many: "Hooks", of: func(s *appsql.Store) setting.Store[hook.Hook] { return &s.Hooks },
		empty: func(app, name string) hook.Hook { return hook.Hook{App: app, Name: name} },
		full: hook.Hook{
			App: "shop", Name: "crm", URL: "https://crm.example/?k=1", Types: []event.Type{event.Acked, event.Failed}, Secrets: []string{"whsec_a", "whsec_b"},
			Enabled: true, CreatedAt: madeAt, UpdatedAt: changedAt, From: 1<<62 + 7, FromAt: time.UnixMilli(1_700_000_000_789).UTC(),
		},
		mark:   func(h *hook.Hook, with string) { h.URL, h.CreatedAt, h.UpdatedAt = with, madeAt, changedAt },
		change: func(h *hook.Hook) { h.Enabled, h.Types = false, nil },
		place:  func(h *hook.Hook) (string, string) { return h.App, h.Name },
	}.cases())
	maps.Copy(all, kind[source.Source]{
		one: "ASource", many: "Sources", of: func(s *appsql.Store) setting.Store[source.Source] { return &s.Sources },
		empty: func(app, name string) source.Source { return source.Source{App: app, Name: name} },
		full: source.Source{
			App: "shop", Name: "rides", Kind: streams.Name, ResyncAt: changedAt, Values: setting.Values{"urls": []byte(`["redis://a:6379","redis://b:6379"]`), "password": []byte(`"sekret"`), "recipients": []byte(`["ann","bob"]`)},
			Enabled: true, Private: true, CreatedAt: madeAt, UpdatedAt: changedAt,
		},
		mark: func(s *source.Source, with string) {
			s.Kind, s.CreatedAt, s.UpdatedAt = streams.Name, madeAt, changedAt
			s.Values = setting.Values{"urls": []byte(`["` + with + `"]`)}
		},
		change: func(s *source.Source) { s.Enabled = false; delete(s.Values, "recipients") },
		place:  func(s *source.Source) (string, string) { return s.App, s.Name },
	}.cases())
	maps.Copy(all, kind[sink.Sink]{
		one: "ASink", many: "Sinks", of: func(s *appsql.Store) setting.Store[sink.Sink] { return &s.Sinks },
		empty: func(app, name string) sink.Sink { return sink.Sink{App: app, Kind: name} },
		full: sink.Sink{
			App: "shop", Kind: clickhouse.Name, Values: setting.Values{"url": []byte(`"https://ch:8443"`), "password": []byte(`"sekret"`), "user": []byte(`"u"`), "keep": []byte("7776000000000000")},
			Backfill: true, From: 7, Enabled: true, Private: true, CreatedAt: madeAt, UpdatedAt: changedAt,
		},
		mark: func(s *sink.Sink, with string) {
			s.Values, s.CreatedAt, s.UpdatedAt = setting.Values{"database": setting.JSON(with)}, madeAt, changedAt
		},
		change: func(s *sink.Sink) { s.Enabled = false; delete(s.Values, "user") },
		place:  func(s *sink.Sink) (string, string) { return s.App, s.Kind },
	}.cases())
	maps.Copy(all, kind[segment.Segment]{
		one: "ASegment", many: "Segments", of: func(s *appsql.Store) setting.Store[segment.Segment] { return &s.Segments },
		empty: func(app, name string) segment.Segment { return segment.Segment{App: app, Name: name} },
		full: segment.Segment{
			App: "shop", Name: "vip", Where: `city = "Østby" and name contains "\"<é>"`, Description: "Who pays, and\nlives near", CreatedAt: madeAt, UpdatedAt: changedAt,
		},
		mark:   func(s *segment.Segment, with string) { s.Where, s.CreatedAt, s.UpdatedAt = with, madeAt, changedAt },
		change: func(s *segment.Segment) { s.Where, s.Description = "vip = true", "" },
		place:  func(s *segment.Segment) (string, string) { return s.App, s.Name },
	}.cases())
	maps.Copy(all, kind[channel.Record]{
		one: "AChannel", many: "Channels", of: func(s *appsql.Store) setting.Store[channel.Record] { return &s.Channels },
		empty: func(app, name string) channel.Record {
			return channel.Record{App: app, Channel: push.Channel(name), Enabled: true, Values: channel.Values{}}
		},
		full: channel.Record{
			App: "shop", Channel: push.WebPush, Enabled: true, Values: channel.Values{"subject": "mailto:a@example.org", "key": "secret"}, UpdatedAt: changedAt,
		},
		mark:   func(r *channel.Record, with string) { r.Values["key"], r.UpdatedAt = with, changedAt },
		change: func(r *channel.Record) { r.Enabled = false; delete(r.Values, "subject") },
		place:  func(r *channel.Record) (string, string) { return r.App, string(r.Channel) },
	}.cases())
	return all
}

func (k kind[T]) cases() map[string]func(e *appEnv) {
	return map[string]func(e *appEnv){k.one + "IsKeptAsItWasMadeAndChanged": k.isKept, k.many + "OfAppsAreApart": k.apart}
}

func (k kind[T]) isKept(e *appEnv) {
	ctx := e.Context()
	e.app("shop")
	_, name := k.place(&k.full)
	// sees checks the state that is passed to an update.
	sees := func(what string, one *T, others int, want T) {
		e.Helper()
		if !reflect.DeepEqual(*one, want) || others != 0 {
			e.Errorf("%s is %+v beside %d others, want %+v alone", what, one, others, want)
		}
	}
	e.ok(k.of(e.s).Update(ctx, "shop", name, func(one *T, others int) error {
		sees("a new one", one, others, k.empty("shop", name))
		*one = k.full
		return nil
	}))
	e.s = e.reopen()
	want := k.full
	e.ok(k.of(e.s).Update(ctx, "shop", name, func(one *T, others int) error {
		sees("a kept one", one, others, k.full)
		k.change(one)
		want = *one
		return nil
	}))
	if err := k.of(e.s).Update(ctx, "shop", name, func(one *T, _ int) error { *one = k.full; return context.Canceled }); err == nil {
		e.Error("a change that failed was taken")
	}
	if found, err := k.of(e.s).Delete(ctx, "shop", name, func(one *T) error {
		sees("one that is to be deleted", one, 0, want)
		return context.Canceled
	}); found || err == nil {
		e.Errorf("a deletion that was barred: %t, %v", found, err)
	}
	if list, err := k.of(e.s).All(ctx); err != nil || !reflect.DeepEqual(list, []T{want}) || reflect.DeepEqual(want, k.full) {
		e.Errorf("got %+v, %v; want %+v", list, err, want)
	}
}

func (k kind[T]) apart(e *appEnv) {
	ctx := e.Context()
	nothing := func(*T, int) error { return nil }
	for _, app := range []string{"a", "b"} {
		e.app(app)
		for i, name := range []string{"one", "two"} {
			e.ok(k.of(e.s).Update(ctx, app, name, func(one *T, others int) error {
				if !reflect.DeepEqual(*one, k.empty(app, name)) || others != i {
					e.Errorf("%s of %s begins as %+v beside %d others, want %d", name, app, one, others, i)
				}
				k.mark(one, app+name)
				return nil
			}))
		}
	}
	for _, at := range [][2]string{{"a", "one"}, {"a", "two"}, {"b", "one"}, {"b", "two"}} {
		e.ok(k.of(e.s).Update(ctx, at[0], at[1], func(one *T, others int) error {
			want := k.empty(at[0], at[1])
			k.mark(&want, at[0]+at[1])
			if !reflect.DeepEqual(*one, want) || others != 1 {
				e.Errorf("that of %v is %+v beside %d others, want %+v beside 1", at, one, others, want)
			}
			return nil
		}))
	}
	e.fails(map[string]struct{ err, want error }{"update of no app": {k.of(e.s).Update(ctx, "c", "one", nothing), access.ErrUnknownApp}})
	for _, d := range []struct {
		app, name string
		want      bool
	}{{"a", "one", true}, {"a", "one", false}, {"c", "two", false}} {
		if found, err := k.of(e.s).Delete(ctx, d.app, d.name, func(*T) error { return nil }); err != nil || found != d.want {
			e.Errorf("delete %s of %s: %t, %v", d.name, d.app, found, err)
		}
	}
	k.left(e, "a/two", "b/one", "b/two")
	e.ok(e.s.DeleteApp(ctx, "b", nil))
	k.left(e, "a/two")
	e.ok(e.s.DeleteApp(ctx, "a", nil))
	k.left(e)
}

// left checks which there are.
func (k kind[T]) left(e *appEnv, want ...string) {
	e.Helper()
	list, err := k.of(e.s).All(e.Context())
	e.ok(err)
	var left []string
	for i := range list {
		app, name := k.place(&list[i])
		left = append(left, app+"/"+name)
	}
	if slices.Sort(left); !slices.Equal(left, want) {
		e.Errorf("left are %q, want %q", left, want)
	}
}
