package core

import (
	"context"

	"github.com/oklog/ulid/v2"

	"godwit.dev/godwit/internal/notify/digest"
	"godwit.dev/godwit/internal/server/app/ground"
	"godwit.dev/godwit/internal/store/digestdb"
)

// startDigests starts the service that keeps what waits for a digest. It must be there before anything publishes; the module starts the sending.
func (c *Core) startDigests(ctx context.Context, g *ground.Ground) error {
	db := g.Stores.Database(digest.Module)
	if db == nil {
		return nil
	}
	c.Digests = digest.New(digest.Config{
		Store: digestdb.New(db, func() string { return ulid.Make().String() }), Mailboxes: g.Stores.Mailbox, Publisher: c.Publisher, Recall: c.Mailbox.Recall,
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
