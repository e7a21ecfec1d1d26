package storetest

import (
	"context"
	"reflect"
	"time"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/feeds/sink"
)

var sinkCases = map[string]func(e *appEnv){
	"ASinkIsKeptAsItWasMadeAndChanged": sinkIsKept,
	"SinksOfAppsAreApart":              sinksApart,
}

func sinkIsKept(e *appEnv) {
	ctx := e.Context()
	e.app("shop")
	made := sink.Sink{
		App: "shop", Kind: sink.ClickHouse, URL: "https://ch:8443", Database: "godwit", User: "u", Password: "sekret", Keep: 90 * 24 * time.Hour, Backfill: true,
		Enabled: true, Private: true, CreatedAt: time.UnixMilli(1_700_000_000_123).UTC(), UpdatedAt: time.UnixMilli(1_700_000_000_456).UTC(),
	}
	e.ok(e.s.UpdateSink(ctx, "shop", sink.ClickHouse, func(s *sink.Sink) error {
		if !reflect.DeepEqual(*s, sink.Sink{App: "shop", Kind: sink.ClickHouse}) {
			e.Errorf("a new sink is %+v", s)
		}
		*s = made
		return nil
	}))
	e.s = e.reopen()
	e.ok(e.s.UpdateSink(ctx, "shop", sink.ClickHouse, func(s *sink.Sink) error {
		if !reflect.DeepEqual(*s, made) {
			e.Errorf("got %+v, want %+v", s, made)
		}
		s.Enabled, s.User = false, ""
		return nil
	}))
	if err := e.s.UpdateSink(ctx, "shop", sink.ClickHouse, func(s *sink.Sink) error { s.Enabled = true; return context.Canceled }); err == nil {
		e.Error("a change that failed was taken")
	}
	made.Enabled, made.User = false, ""
	if list, err := e.s.Sinks(ctx); err != nil || !reflect.DeepEqual(list, []sink.Sink{made}) {
		e.Errorf("got %+v, %v; want %+v", list, err, made)
	}
}

func sinksApart(e *appEnv) {
	ctx := e.Context()
	nothing := func(*sink.Sink) error { return nil }
	apps := []string{"a", "b"}
	for _, app := range apps {
		e.app(app)
		e.ok(e.s.UpdateSink(ctx, app, sink.ClickHouse, func(s *sink.Sink) error { s.Database = app; return nil }))
	}
	for _, app := range apps {
		e.ok(e.s.UpdateSink(ctx, app, sink.ClickHouse, func(s *sink.Sink) error {
			if s.App != app || s.Database != app {
				e.Errorf("that of %s is %+v", app, s)
			}
			return nil
		}))
	}
	e.fails(map[string]struct{ err, want error }{"sink of no app": {e.s.UpdateSink(ctx, "c", sink.ClickHouse, nothing), access.ErrUnknownApp}})
	for i, want := range []bool{true, false} {
		if found, err := e.s.DeleteSink(ctx, "a", sink.ClickHouse); err != nil || found != want {
			e.Errorf("deletion %d: %t, %v", i, found, err)
		}
	}
	if list, err := e.s.Sinks(ctx); err != nil || len(list) != 1 || list[0].App != "b" {
		e.Errorf("left %+v, %v; want that of b", list, err)
	}
	e.ok(e.s.UpdateSink(ctx, "a", sink.ClickHouse, nothing))
	e.ok(e.s.DeleteApp(ctx, "b"))
	if list, err := e.s.Sinks(ctx); err != nil || len(list) != 1 || list[0].App != "a" {
		e.Errorf("app b is deleted, and left is %+v, %v; want that of a", list, err)
	}
	e.ok(e.s.DeleteApp(ctx, "a"))
	if list, err := e.s.Sinks(ctx); err != nil || len(list) != 0 {
		e.Errorf("both apps are deleted, and %+v is left, %v", list, err)
	}
}
