package app

import (
	"context"

	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/store/redisstream"
)

// startSources starts what brings notifications from where publishers already put them.
func (a *App) startSources(ctx context.Context) error {
	sources, err := source.New(ctx, source.Config{
		Store: a.stores.Sources, Publisher: a.publisher, Open: a.openStreams, Own: a.own("sources"), Now: a.clock,
		AllowPrivate: a.cfg.AllowPrivateURLs, Log: a.log,
	})
	if err != nil {
		return err
	}
	a.sources = sources
	a.registry.MustRegister(sources)
	a.steps.addRun("sources", storePatience, sources.Run, a.fail)
	return nil
}

// openStreams connects to the Redis of a source.
func (a *App) openStreams(ctx context.Context, t source.Target) (source.Streams, error) {
	s, err := redisstream.OpenStreams(ctx, redisstream.StreamsConfig{URLs: t.URLs, Clients: t.Recipients, Private: t.Private, Log: a.log})
	if err != nil {
		return nil, err
	}
	return s, nil
}
