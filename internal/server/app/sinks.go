package app

import (
	"context"

	"godwit.dev/godwit/internal/access/urlguard"
	"godwit.dev/godwit/internal/feeds/reconcile"
	"godwit.dev/godwit/internal/feeds/sink"
	"godwit.dev/godwit/internal/feeds/sink/clickhouse"
)

// startSinks starts what brings events to where they are counted.
func (a *App) startSinks(ctx context.Context) error {
	sinks, err := sink.New(ctx, sink.Config{
		Store: a.stores.Sinks, Progress: a.stores.Drained, Events: a.stores.Events, Past: reconcile.Past{Log: a.stores.Events, Changes: a.stores.Changes}, Open: a.openSink, Own: a.own("sinks"), Now: a.clock, Log: a.log,
	})
	if err != nil {
		return err
	}
	a.sinks = sinks
	a.registry.MustRegister(sinks)
	a.steps.addRun("sinks", storePatience, sinks.Run, a.fail)
	return nil
}

// openSink makes the writer of a sink.
func (a *App) openSink(s *sink.Sink) (sink.Writer, error) {
	reach := urlguard.Public
	if s.Private || a.cfg.AllowPrivateURLs {
		reach = urlguard.Anywhere
	}
	return clickhouse.New(clickhouse.Config{
		URL: s.URL, Database: s.Database, User: s.User, Password: string(s.Password), Keep: s.Keep,
		Client: urlguard.Client(urlguard.Options{Reach: reach, Timeout: clickhouse.AnswerWithin, ConnsPerHost: 2}),
	}), nil
}
