package storetest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/campaigns/preference"
	"godwit.dev/godwit/internal/campaigns/template"
	"godwit.dev/godwit/internal/feeds/hook"
	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/feeds/source/streams"
	"godwit.dev/godwit/internal/sending/channel"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/store/appsql"
)

// OpenApps opens an empty store for one test; reopen closes and reopens it. The test's cleanup closes it.
type OpenApps func(t *testing.T) (s *appsql.Store, reopen func() *appsql.Store)

// RunApps is the conformance suite of stores of apps with their keys, hooks, sources, channels and templates, and of people's sign-ins.
// Since several processes may always write to the same store, the suite also needs two stores.
func RunApps(t *testing.T, open OpenApps, two Two[*appsql.Store]) {
	t.Helper()
	for _, group := range []map[string]func(e *appEnv){
		{
			"AppsAndKeysSurviveReopening": appsSurvive,
			"EveryQueryHeedsTheApp":       appsApart,
			"AnAppTakesAllOfItsAlong":     appTakesAll,
		},
		settingCases(), segmentCases, templateCases, loginCases, entryCases,
	} {
		for name, run := range group {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				e := &appEnv{T: t}
				e.s, e.reopen = open(t)
				run(e)
			})
		}
	}
	for name, run := range map[string]func(e *appEnv, stores [2]*appsql.Store){
		"TwoProcessesLoseNoUpdate":           twoUpdates,
		"TwoProcessesTellEachOther":          twoWatches,
		"OfTwoChangesOfOneRevisionOneIsMade": twoTemplates,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := two(t, time.Now)
			run(&appEnv{T: t, s: a}, [2]*appsql.Store{a, b})
		})
	}
}

// appEnv is one test's store, with the suite's helpers.
type appEnv struct {
	*testing.T
	s      *appsql.Store
	reopen func() *appsql.Store
}

func (e *appEnv) ok(err error) {
	e.Helper()
	if err != nil {
		e.Fatal(err)
	}
}

// fails checks that calls returned the wanted errors; nil: success.
func (e *appEnv) fails(calls map[string]struct{ err, want error }) {
	e.Helper()
	for what, c := range calls {
		if !errors.Is(c.err, c.want) {
			e.Errorf("%s: %v, want %v", what, c.err, c.want)
		}
	}
}

func (e *appEnv) app(name string) access.App {
	e.Helper()
	keys, err := access.ParseJWTKeys([]byte("a secret of at least thirty-two bytes"))
	e.ok(err)
	keys[0].Mints = true
	app := access.App{
		Name: name, Origins: []string{"https://a.example", "https://b.example"}, AnonymousOrigins: []string{"https://c.example"}, JWTKeys: keys,
		JWKSURL: "https://j.example", IntrospectURL: "https://i.example", IntrospectID: "me", IntrospectSecret: "sekret",
		Issuer: "iss", Audience: "aud", CertificateTopics: []string{"units.{sub}.>"}, CertificateServe: []string{"ask.{sub}"}, CertificatePublish: []string{"telemetry.{sub}.>", "to.dispatch"}, MQTTKeep: []string{"jobs.>"}, CreatedAt: time.UnixMilli(1_700_000_000_123).UTC(),
		Batches:    map[string]time.Duration{"region-1": time.Minute, "*": 0},
		Services:   map[string]access.Service{"orders": {Access: access.ByClient, Timeout: time.Second}},
		Categories: map[string]preference.Category{"alarm": {Critical: true}, "*": {Limit: preference.Limit{Count: 3, Per: time.Hour}}},
		Guides:     map[string]access.GuideState{"browsers": access.GuideTested},
	}
	e.ok(e.s.CreateApp(e.Context(), app))
	return app
}

func keyOf(app, id string) access.StoredKey {
	return access.StoredKey{
		Key: access.Key{
			ID: id, App: app, Name: "ci", Roles: access.Publish | access.Worker, CreatedAt: time.UnixMilli(1_700_000_000_456).UTC(), Prefix: "gw_" + id,
		},
		Hash: sha256.Sum256([]byte(id)),
	}
}

func appsSurvive(e *appEnv) {
	app, k := e.app("shop"), keyOf("shop", "k1")
	e.ok(e.s.CreateKey(e.Context(), k))
	used := time.UnixMilli(1_700_000_001_000).UTC()
	e.ok(e.s.TouchKeys(e.Context(), map[string]time.Time{"k1": used, "gone": used}))
	e.ok(e.s.TouchKeys(e.Context(), map[string]time.Time{"k1": used.Add(-time.Hour)})) // what was used later stays
	got, err := e.reopen().Load(e.Context())
	k.LastUsed = used
	if want := (access.Snapshot{Apps: []access.App{app}, Keys: []access.StoredKey{k}}); err != nil || !reflect.DeepEqual(got, want) {
		e.Errorf("got %+v, %v; want %+v", got, err, want)
	}
}

func appsApart(e *appEnv) {
	for _, app := range []string{"a", "b"} {
		e.app(app)
		e.ok(e.s.CreateKey(e.Context(), keyOf(app, "of-"+app)))
	}
	ctx := e.Context()
	e.fails(map[string]struct{ err, want error }{
		"another app's key deleted":   {e.s.DeleteKey(ctx, "a", "of-b"), access.ErrUnknownKey},
		"id taken by another app":     {e.s.CreateKey(ctx, keyOf("a", "of-b")), access.ErrExists},
		"key of no app":               {e.s.CreateKey(ctx, keyOf("c", "k")), access.ErrUnknownApp},
		"app twice":                   {e.s.CreateApp(ctx, access.App{Name: "a"}), access.ErrExists},
		"missing app changed":         {e.s.UpdateApp(ctx, "c", func(*access.App) error { return nil }), access.ErrUnknownApp},
		"missing app deleted":         {e.s.DeleteApp(ctx, "c", nil), access.ErrUnknownApp},
		"change that fails is undone": {e.s.UpdateApp(ctx, "b", func(a *access.App) error { a.Issuer = "x"; return context.Canceled }), context.Canceled},
	})
	e.ok(e.s.DeleteApp(ctx, "a", nil))
	got, err := e.s.Load(ctx)
	if err != nil || len(got.Apps) != 1 || got.Apps[0].Issuer != "iss" || len(got.Keys) != 1 || got.Keys[0].ID != "of-b" {
		e.Errorf("left: %+v, %v", got, err)
	}
}

func appTakesAll(e *appEnv) {
	ctx := e.Context()
	for _, app := range []string{"a", "b"} {
		e.app(app)
		e.ok(e.s.CreateKey(ctx, keyOf(app, "of-"+app)))
		e.ok(e.s.Hooks.Update(ctx, app, "h", func(*hook.Hook, int) error { return nil }))
		e.ok(e.s.Channels.Update(ctx, app, string(push.WebPush), func(*channel.Record, int) error { return nil }))
		e.ok(e.s.Sources.Update(ctx, app, streams.Name, func(*source.Source, int) error { return nil }))
		e.template(app, "t")
	}
	e.ok(e.s.DeleteApp(ctx, "a", nil))
	e.ok(e.s.CreateApp(ctx, access.App{Name: "a"})) // the new app has nothing of the deleted one
	snap, err := e.s.Load(ctx)
	e.ok(err)
	hooks, err := e.s.Hooks.All(ctx)
	e.ok(err)
	channels, err := e.s.Channels.All(ctx)
	e.ok(err)
	sources, err := e.s.Sources.All(ctx)
	e.ok(err)
	if _, err := e.s.Template(ctx, "a", "t"); !errors.Is(err, template.ErrUnknown) {
		e.Errorf("its template came back: %v", err)
	}
	if _, err := e.s.Template(ctx, "b", "t"); err != nil {
		e.Errorf("another app's template: %v", err)
	}
	if len(snap.Keys) != 1 || snap.Keys[0].App != "b" || len(hooks) != 1 || hooks[0].App != "b" || len(channels) != 1 || channels[0].App != "b" || len(sources) != 1 || sources[0].App != "b" {
		e.Errorf("left: %+v, %+v, %+v, %+v", snap.Keys, hooks, channels, sources)
	}
}

func twoUpdates(e *appEnv, stores [2]*appsql.Store) {
	const each = 10
	ctx := e.Context()
	e.ok(e.s.CreateApp(ctx, access.App{Name: "a"}))
	atOnce(2, each, func(caller, nth int) {
		s, name := stores[caller], fmt.Sprintf("%d-%d", caller, nth)
		for what, err := range map[string]error{
			"app":     s.UpdateApp(ctx, "a", func(a *access.App) error { a.Origins = append(a.Origins, name); return nil }),
			"hook":    s.Hooks.Update(ctx, "a", "h", func(h *hook.Hook, _ int) error { h.Secrets = append(h.Secrets, name); return nil }),
			"channel": s.Channels.Update(ctx, "a", string(push.WebPush), func(r *channel.Record, _ int) error { r.Values[name] = "x"; return nil }),
		} {
			if err != nil {
				e.Errorf("%s: %v", what, err)
			}
		}
	})
	for _, s := range stores {
		snap, err := s.Load(ctx)
		e.ok(err)
		hooks, err := s.Hooks.All(ctx)
		e.ok(err)
		channels, err := s.Channels.All(ctx)
		e.ok(err)
		if n := [3]int{len(snap.Apps[0].Origins), len(hooks[0].Secrets), len(channels[0].Values)}; n != [3]int{2 * each, 2 * each, 2 * each} {
			e.Errorf("of %d changes each %v are there", 2*each, n)
		}
	}
}

// twoWatches changes something through each store; both watchers must be called and then see all changes.
func twoWatches(e *appEnv, stores [2]*appsql.Store) {
	ctx, stop := context.WithCancel(e.Context())
	var watching sync.WaitGroup
	defer watching.Wait()
	defer stop()
	woken := [2]chan struct{}{}
	for i, s := range stores {
		woken[i] = make(chan struct{}, 1)
		watching.Go(func() {
			err := s.Watch(ctx, func() {
				select {
				case woken[i] <- struct{}{}:
				default:
				}
			})
			if err != nil {
				e.Error(err)
			}
		})
		<-woken[i] // once at the start
	}
	names := []string{}
	for i, s := range stores {
		names = append(names, fmt.Sprint("by-", i))
		e.ok(s.CreateApp(ctx, access.App{Name: names[i]}))
		for j, other := range stores {
			for {
				snap, err := other.Load(ctx)
				e.ok(err)
				if slices.EqualFunc(snap.Apps, names, func(a access.App, name string) bool { return a.Name == name }) {
					break
				}
				<-woken[j]
			}
		}
	}
}
