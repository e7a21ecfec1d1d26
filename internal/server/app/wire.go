package app

import (
	"context"
	"time"

	"godwit.dev/godwit/internal/server/app/compat"
	"godwit.dev/godwit/internal/server/app/conns"
	"godwit.dev/godwit/internal/server/app/core"
	"godwit.dev/godwit/internal/server/app/feeds"
	"godwit.dev/godwit/internal/server/app/figures"
	"godwit.dev/godwit/internal/server/app/ground"
	"godwit.dev/godwit/internal/server/app/sending"
	"godwit.dev/godwit/internal/server/app/web"
)

// wire starts all parts, each with its dependencies as arguments. They are stopped in reverse.
func (a *App) wire(ctx context.Context) error {
	g, reporter, err := a.openGround(ctx)
	if err != nil {
		return err
	}
	c, err := core.Start(ctx, g)
	if err != nil {
		return err
	}
	out, fed, err := startSending(ctx, g, c)
	if err != nil {
		return err
	}
	other, err := compat.Start(ctx, g, c.Hub)
	if err != nil {
		return err
	}
	pace := startMemory(g, c, a.opts.tunes())
	on, err := conns.Start(g, pace.Opening)
	if err != nil {
		return err
	}
	a.countLost()
	told := &figures.Server{Ground: g, Core: c, Sending: out, Feeds: fed, Conns: on, Begun: a.begun}
	told.Start()
	c.WatchReach(g)
	site, err := web.New(told)
	if err != nil {
		return err
	}
	if err := a.listen(ctx, site, other); err != nil {
		return err
	}
	if err := a.announce(); err != nil {
		return err
	}
	if reporter != nil { // all figures are there now
		g.Steps.AddRun("reports of figures", ground.StorePatience, reporter.Run)
	}
	g.Steps.AddRun("drain", time.Second, func(ctx context.Context) error { return a.runDrain(ctx, g, c, other) })
	return nil
}

// startSending starts the services that send notifications and events to people, apps and other services, and those that read notifications
// from other services.
func startSending(ctx context.Context, g *ground.Ground, c *core.Core) (*sending.Sending, feeds.Feeds, error) {
	var fed feeds.Feeds
	if err := feeds.Reconcile(ctx, g, c.Mailbox); err != nil {
		return nil, fed, err
	}
	channels, err := sending.Channels(ctx, g, c)
	if err != nil {
		return nil, fed, err
	}
	if fed.Hooks, err = feeds.Hooks(ctx, g); err != nil {
		return nil, fed, err
	}
	out, err := sending.Start(g, c, channels)
	if err != nil {
		return nil, fed, err
	}
	if fed.Sources, err = feeds.Sources(ctx, g, c); err != nil {
		return nil, fed, err
	}
	if fed.Sinks, err = feeds.Sinks(ctx, g); err != nil {
		return nil, fed, err
	}
	fed.TellLag(g, c.Cluster)
	return out, fed, nil
}
