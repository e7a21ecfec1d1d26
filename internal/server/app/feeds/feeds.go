// Package feeds starts the services that deliver the event log, that restore its lost events, and that read notifications from places where
// publishers already put them.
package feeds

import (
	"context"
	"maps"
	"time"

	"godwit.dev/godwit/internal/feeds/hook"
	"godwit.dev/godwit/internal/feeds/reconcile"
	"godwit.dev/godwit/internal/feeds/sink"
	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/objects/signal"
	"godwit.dev/godwit/internal/sending/provider"
	"godwit.dev/godwit/internal/sending/webhook"
	"godwit.dev/godwit/internal/server/app/core"
	"godwit.dev/godwit/internal/server/app/ground"
	"godwit.dev/godwit/internal/server/httpapi/backend"
	"godwit.dev/godwit/internal/server/module"
)

// Feeds holds the services whose settings belong to apps.
type Feeds struct {
	Hooks   *hook.Service
	Sources *source.Service
	Sinks   *sink.Service
}

// Reconcile starts the service that restores lost events of the event log.
func Reconcile(ctx context.Context, g *ground.Ground, box *mailbox.Mailbox) error {
	m := reconcile.New(reconcile.Config{Log: g.Stores.Events, Changes: g.Stores.Changes, Alive: g.Stores.Alive, Own: g.Own("reconcile"), Notes: g.Log})
	g.Registry.MustRegister(m)
	var apps []string
	for _, app := range g.Access.Apps() {
		apps = append(apps, app.Name)
	}
	told, err := m.Reported(ctx, apps)
	if err != nil {
		g.Log.WarnContext(ctx, "what the event log was told of before a crash cannot be read: first deliveries may be told of twice", "error", err)
	}
	box.LeaveOut(told.Take)
	g.Steps.AddRun("reconcile", ground.StorePatience, m.Run)
	return nil
}

// Hooks starts the service that posts events to apps.
func Hooks(ctx context.Context, g *ground.Ground) (*hook.Service, error) {
	client := provider.Unbounded(g.Settings.Targets()) // each hook limits its requests itself
	g.Steps.AddClose("hook connections", time.Second, func() error { client.CloseIdleConnections(); return nil })
	cfg := hook.Config{
		Store: g.Stores.Hooks, Progress: g.Stores.Progress, Events: g.Stores.Events, Own: g.Own("hooks"), Now: g.Stores.Clock, Log: g.Log,
		Poster: webhook.Hooks{Poster: webhook.NewPoster(client, g.Settings.Targets())},
	}
	if g.Tracer != nil {
		cfg.Tracer = g.Tracer
	}
	hooks, err := hook.New(ctx, cfg)
	if err != nil {
		return nil, err
	}
	g.Registry.MustRegister(hooks)
	g.Steps.AddRun("hooks", ground.StorePatience, hooks.Run)
	return hooks, nil
}

// SourceKinds are the kinds of sources of modules, by name.
func SourceKinds(list []module.Module) map[string]source.Kind {
	return collect(list, func(m *module.Module) map[string]source.Kind { return m.Sources })
}

// SinkKinds are the kinds of sinks of modules, by name.
func SinkKinds(list []module.Module) map[string]sink.Kind {
	return collect(list, func(m *module.Module) map[string]sink.Kind { return m.Sinks })
}

func collect[K any](list []module.Module, of func(*module.Module) map[string]K) map[string]K {
	kinds := make(map[string]K)
	for i := range list {
		maps.Copy(kinds, of(&list[i]))
	}
	return kinds
}

// objects names the objects of a group to sources.
type objects struct{ *signal.Service }

// Names implements source.Objects.
func (o objects) Names(ctx context.Context, app, group, after string, limit int) (names []string, next string, err error) {
	items, next, err := o.List(ctx, app, group, "", after, limit)
	for i := range items {
		names = append(names, items[i].Key.Object)
	}
	return names, next, err
}

// Sources starts the service that reads notifications from places where publishers already put them.
func Sources(ctx context.Context, g *ground.Ground, c *core.Core) (*source.Service, error) {
	sources, err := source.New(ctx, source.Config{
		Store: g.Stores.Sources, Records: g.Stores.SourceRecords, Read: backend.ReadEntries,
		Publisher: c.Publisher, Objects: objects{c.Objects}, Topics: c.Topics,
		Kinds: SourceKinds(g.Modules), Own: g.Own("sources"), Now: g.Stores.Clock, Targets: g.Settings.Targets(), Log: g.Log,
	})
	if err != nil {
		return nil, err
	}
	g.Registry.MustRegister(sources)
	g.Steps.AddRun("sources", ground.StorePatience, sources.Run)
	return sources, nil
}

// Sinks starts the service that writes events to analytics databases.
func Sinks(ctx context.Context, g *ground.Ground) (*sink.Service, error) {
	sinks, err := sink.New(ctx, sink.Config{
		Store: g.Stores.Sinks, Progress: g.Stores.Drained, Events: g.Stores.Events, Past: reconcile.Past{Log: g.Stores.Events, Changes: g.Stores.Changes},
		Kinds: SinkKinds(g.Modules), Own: g.Own("sinks"), Now: g.Stores.Clock, Targets: g.Settings.Targets(), Log: g.Log,
	})
	if err != nil {
		return nil, err
	}
	g.Registry.MustRegister(sinks)
	g.Steps.AddRun("sinks", ground.StorePatience, sinks.Run)
	return sinks, nil
}
