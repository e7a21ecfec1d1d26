package core

import (
	"context"
	"slices"

	"godwit.dev/godwit/internal/notify/digest"
	"godwit.dev/godwit/internal/server/app/ground"
	"godwit.dev/godwit/internal/server/module"
)

// startDigests starts the service that keeps what waits for a digest, if the server has the module that sends digests. It must be there before
// anything publishes, and modules start later.
func (c *Core) startDigests(ctx context.Context, g *ground.Ground) error {
	if !slices.ContainsFunc(g.Modules, func(m module.Module) bool { return m.Name == digest.Module }) {
		return nil
	}
	c.Digests = digest.New(digest.Config{
		Store: g.Stores.Digests, Mailboxes: g.Stores.Mailbox, Publisher: c.Publisher, Recall: c.Mailbox.Recall,
		Categories: g.Access.Categories, Gathers: g.Access.Gathers, Fill: c.Templates.Fill, Events: g.Stores.Events,
		Own: g.Own("digests"), Now: g.Stores.Clock, Retain: g.Settings.Retain.D(), Log: g.Log,
	})
	if err := c.Digests.Load(ctx); err != nil {
		return err
	}
	c.Publisher.GatherBy(c.Digests)
	c.Mailbox.LookAside(c.Digests)
	return nil
}
