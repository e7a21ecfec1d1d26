package storetest

import (
	"context"
	"reflect"
	"slices"
	"time"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/feeds/source"
)

var sourceCases = map[string]func(e *appEnv){
	"ASourceIsKeptAsItWasMadeAndChanged": sourceIsKept,
	"SourcesOfAppsAreApart":              sourcesApart,
}

func sourceIsKept(e *appEnv) {
	ctx := e.Context()
	e.app("shop")
	made := source.Source{
		App: "shop", Kind: source.RedisStream, URLs: []string{"redis://a:6379", "redis://b:6379"}, Password: "sekret", Recipients: []string{"ann", "bob"},
		Enabled: true, Private: true, CreatedAt: time.UnixMilli(1_700_000_000_123).UTC(), UpdatedAt: time.UnixMilli(1_700_000_000_456).UTC(),
	}
	e.ok(e.s.UpdateSource(ctx, "shop", source.RedisStream, func(s *source.Source) error {
		if !reflect.DeepEqual(*s, source.Source{App: "shop", Kind: source.RedisStream}) {
			e.Errorf("a new source is %+v", s)
		}
		*s = made
		return nil
	}))
	e.s = e.reopen()
	e.ok(e.s.UpdateSource(ctx, "shop", source.RedisStream, func(s *source.Source) error {
		if !reflect.DeepEqual(*s, made) {
			e.Errorf("got %+v, want %+v", s, made)
		}
		s.Enabled, s.Recipients = false, nil
		return nil
	}))
	if err := e.s.UpdateSource(ctx, "shop", source.RedisStream, func(s *source.Source) error { s.Enabled = true; return context.Canceled }); err == nil {
		e.Error("a change that failed was taken")
	}
	made.Enabled, made.Recipients = false, nil
	if list, err := e.s.Sources(ctx); err != nil || !reflect.DeepEqual(list, []source.Source{made}) {
		e.Errorf("got %+v, %v; want %+v", list, err, made)
	}
}

func sourcesApart(e *appEnv) {
	ctx := e.Context()
	nothing := func(*source.Source) error { return nil }
	apps := []string{"a", "b"}
	for _, app := range apps {
		e.app(app)
		e.ok(e.s.UpdateSource(ctx, app, source.RedisStream, func(s *source.Source) error { s.Recipients = []string{app}; return nil }))
	}
	for _, app := range apps {
		e.ok(e.s.UpdateSource(ctx, app, source.RedisStream, func(s *source.Source) error {
			if s.App != app || !slices.Equal(s.Recipients, []string{app}) {
				e.Errorf("that of %s is %+v", app, s)
			}
			return nil
		}))
	}
	e.fails(map[string]struct{ err, want error }{"source of no app": {e.s.UpdateSource(ctx, "c", source.RedisStream, nothing), access.ErrUnknownApp}})
	for i, want := range []bool{true, false} {
		if found, err := e.s.DeleteSource(ctx, "a", source.RedisStream); err != nil || found != want {
			e.Errorf("deletion %d: %t, %v", i, found, err)
		}
	}
	if list, err := e.s.Sources(ctx); err != nil || len(list) != 1 || list[0].App != "b" {
		e.Errorf("left %+v, %v; want that of b", list, err)
	}
	e.ok(e.s.UpdateSource(ctx, "a", source.RedisStream, nothing))
	e.ok(e.s.DeleteApp(ctx, "b"))
	if list, err := e.s.Sources(ctx); err != nil || len(list) != 1 || list[0].App != "a" {
		e.Errorf("app b is deleted, and left is %+v, %v; want that of a", list, err)
	}
	e.ok(e.s.DeleteApp(ctx, "a"))
	if list, err := e.s.Sources(ctx); err != nil || len(list) != 0 {
		e.Errorf("both apps are deleted, and %+v is left, %v", list, err)
	}
}
