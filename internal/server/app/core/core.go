// Package core starts the parts that handle notifications and the parts that share their sessions: bus, objects, topics, requests, mailbox,
// sessions and the connection to other nodes.
package core

import (
	"context"
	"runtime"
	"time"

	"godwit.dev/godwit/internal/access/limit"
	"godwit.dev/godwit/internal/campaigns/preference"
	"godwit.dev/godwit/internal/campaigns/template"
	"godwit.dev/godwit/internal/cluster"
	"godwit.dev/godwit/internal/messaging/bus"
	"godwit.dev/godwit/internal/messaging/pubsub"
	"godwit.dev/godwit/internal/messaging/request"
	"godwit.dev/godwit/internal/notify/delivery"
	"godwit.dev/godwit/internal/notify/digest"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/session"
	"godwit.dev/godwit/internal/notify/timeline"
	"godwit.dev/godwit/internal/objects/signal"
	"godwit.dev/godwit/internal/server/app/ground"
)

// fewThreads is the number of threads for goroutines below which topics' messages give way to publishes of the mailbox.
const fewThreads = 4

// Core holds the started parts.
type Core struct {
	Bus       *bus.Bus
	Objects   *signal.Service
	Topics    *pubsub.Service
	Requests  *request.Service
	Cluster   *cluster.Cluster // nil: the node is alone
	Mailbox   *mailbox.Mailbox
	Hub       *session.Hub
	Hellos    *limit.Addrs // of sessions and NATS clients
	Publisher *delivery.Service
	Templates *template.Service
	Digests   *digest.Service // nil: the server lacks the module
	Watchers  *timeline.Watchers
}

// Start starts it.
func Start(ctx context.Context, g *ground.Ground) (*Core, error) {
	carrier, err := startBus(ctx, g)
	if err != nil {
		return nil, err
	}
	c := &Core{Bus: carrier}
	c.Objects = startObjects(g)
	c.Topics = startTopics(g, carrier)
	c.Requests = startRequests(g, carrier)
	if g.Boot != "" {
		if c.Cluster, err = startCluster(g, carrier); err != nil {
			return nil, err
		}
	}
	c.startSessions(g)
	if c.Cluster != nil {
		if err := c.joinNodes(g); err != nil {
			return nil, err
		}
	}
	g.Steps.AddRun("watch over space", time.Second, func(ctx context.Context) error { return watchSpace(ctx, g.Log, c.Mailbox, g.Settings.MinFree) })
	g.Steps.AddRun("mailbox upkeep", ground.StorePatience, c.Mailbox.Run)
	c.startPublisher(g)
	if err := c.startDigests(ctx, g); err != nil {
		return nil, err
	}
	g.Registry.MustRegister(c.Mailbox, c.Hub)
	return c, nil
}

// startObjects starts signals: objects and registrations.
func startObjects(g *ground.Ground) *signal.Service {
	objects := signal.New(signal.Config{
		Store: g.Stores.Objects, Now: g.Stores.Clock, Log: g.Log, Retain: g.Settings.ObjectsClientRetention.D(), BatchMost: g.Settings.ObjectsBatchMax.D(),
		Batch: g.Access.Batch,
	})
	g.Steps.AddClose("objects", ground.StorePatience, objects.Close)
	g.Registry.MustRegister(objects.Metrics())
	return objects
}

// startTopics starts the delivery of topics' messages from the bus to sessions. They may fill half of a connection's queue.
func startTopics(g *ground.Ground, carrier *bus.Bus) *pubsub.Service {
	cfg := pubsub.Config{Bus: carrier, Log: g.Log, QueueShare: int(g.Settings.QueueBytes) / 2}
	if g.Tracer != nil {
		cfg.Tracer = g.Tracer
	}
	topics := pubsub.New(cfg)
	g.Steps.AddClose("topics", ground.StorePatience, topics.Close)
	g.Registry.MustRegister(topics)
	return topics
}

// startRequests starts the service that passes requests from the bus to sessions, and answers back.
func startRequests(g *ground.Ground, carrier *bus.Bus) *request.Service {
	cfg := request.Config{Bus: carrier, Log: g.Log}
	if g.Tracer != nil {
		cfg.Tracer = g.Tracer
	}
	requests := request.New(cfg)
	g.Steps.AddClose("requests", ground.StorePatience, requests.Close)
	g.Registry.MustRegister(requests)
	return requests
}

// startSessions starts mailbox and sessions.
func (c *Core) startSessions(g *ground.Ground) {
	c.Watchers = timeline.NewWatchers(nil)
	if g.Tracer != nil {
		c.Watchers = timeline.NewWatchers(g.Tracer)
	}
	c.Hellos = limit.NewAddrs(g.Settings.LimitHellos.PerSecond(), g.Settings.LimitLoopback)
	store := g.Stores.Mailbox
	var peers session.Peers
	if c.Cluster != nil {
		store, peers = c.Cluster.NewDetour(store), c.Cluster
	}
	c.Mailbox = mailbox.New(mailbox.Config{Store: store, Events: g.Stores.Events, Inboxes: g.Stores.Inboxes, Retain: g.Settings.Retain.D(), Log: g.Log, Tracer: c.Watchers})
	c.Hub = session.NewHub(session.Config{
		Store: store, Mailbox: c.Mailbox, Verifier: g.Access, Events: g.Stores.Events, Log: g.Log, Now: g.Stores.Clock,
		Capabilities: []session.Capability{c.Objects, c.Topics, c.Requests},
		Admit:        c.Hellos.Allow, Window: g.Settings.Window,
		Peers: peers, Node: g.Boot, Inboxes: c.inboxes(),
	})
	c.Requests.Find(c.Hub)
	g.Steps.AddClose("sessions", ground.StorePatience, c.Hub.Close)
}

// inboxes returns the inboxes for the sessions.
func (c *Core) inboxes() session.Inboxes {
	if in := c.Mailbox.Inboxes(); in != nil {
		return in
	}
	return nil
}

// startPublisher starts the service behind all interfaces for publishing.
func (c *Core) startPublisher(g *ground.Ground) {
	c.Publisher = delivery.New(c.Mailbox, g.Stores.Clock)
	if g.Tracer != nil {
		c.Publisher.TraceWith(g.Tracer)
	}
	c.Templates = template.New(g.Stores.Templates, g.Stores.Clock)
	c.Publisher.FillWith(c.Templates.Fill)
	c.Publisher.KeepBy(func(app, category string) (time.Duration, bool) {
		return preference.Kept(g.Access.Categories(app), category)
	})
	if runtime.GOMAXPROCS(0) < fewThreads {
		c.Topics.GiveWayTo(c.Publisher.Busy)
	}
}
