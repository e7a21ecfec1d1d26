// Package cluster connects the sessions of several nodes. It routes the notifications that one node stores to the nodes with their
// recipients' sessions, tracks the nodes to which each recipient is connected, and passes questions to other nodes. The store is
// authoritative: what is lost between nodes is read from it. The package uses the bus only through the interface Line.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/session"
)

// Line carries messages between nodes: each is delivered at most once, and never to its sender. Only Flush blocks.
type Line interface {
	Publish(subject string, data []byte) error
	// Subscribe receives messages that others publish to a subject, until End is called. On this node, the subscription is in effect after
	// Flush has returned.
	Subscribe(subject string) (interface{ End() }, error)
	Flush(ctx context.Context) error
	// Dropped returns the number of messages that could not be sent.
	Dropped() uint64
}

// Opener opens a line. Its callbacks are called one at a time and must not wait for the line. got receives a message, which it may keep;
// lost reports that messages may be missing.
type Opener func(got func(subject string, data []byte), lost func()) (Line, error)

// Roll reports which nodes are alive, independently of the bus: from the store that they share.
type Roll interface {
	// Alive lists the boots of the nodes whose leases are current.
	Alive(ctx context.Context) ([]string, error)
}

// Member is a node that belongs to the cluster, alive or not.
type Member struct {
	Name, Boot string
	Lives      bool          // its lease in the store is current
	Silent     time.Duration // time since its last sign of life in the store; 0 if it lives
}

// Ledger is a Roll that also lists lost nodes.
type Ledger interface {
	Members(ctx context.Context) ([]Member, error)
}

// Config holds the parts and settings of a Cluster.
type Config struct {
	Open    Opener
	Node    string // this node's name, unique in the cluster
	Boot    string // id of this start of the node
	Version string
	Roll    Roll                 // nil: a node counts as gone after goneAfter without a heartbeat
	Now     func() time.Time     // the store's clock
	Heard   func() time.Duration // returns the time since the store last answered this node; nil: not monitored
	Steady  func() time.Duration // returns for how long the store has answered this node without interruption, 0: it does not answer; nil: not monitored
	Work    func() Work          // this node's; nil: not known
	// Taken is called once if another node of the same name is alive and started before this one: this node must then stop.
	Taken func(error)
	Log   *slog.Logger
}

// Cluster is the connection of this node's parts to the other nodes.
type Cluster struct {
	cfg     Config
	log     *slog.Logger
	line    Line
	hub     atomic.Pointer[session.Hub]
	objects atomic.Pointer[objects] // nil: they take no part
	steps   atomic.Pointer[Part]    // nil: they take no part
	traces  atomic.Pointer[Part]    // nil: nothing is traced
	badges  atomic.Pointer[Part]    // nil: no icons are told
	started time.Time

	wants    interests
	mine     mine
	tables   tables
	former   former
	nodes    nodes
	presence presence
	asks     asks
	counts   counts

	reread chan struct{} // has an element when sessions must compare themselves with the store
	taken  sync.Once
	ctx    context.Context
	stop   context.CancelFunc
	ended  sync.WaitGroup
}

// New connects to the other nodes. It passes no messages on before Join sets the hub.
func New(cfg Config) (*Cluster, error) {
	c := &Cluster{cfg: cfg, log: cfg.Log, started: time.Now(), reread: make(chan struct{}, 1)}
	c.ctx, c.stop = context.WithCancel(context.Background())
	c.mine.init()
	c.nodes.init()
	c.presence.init()
	c.asks.init()
	var err error
	if c.line, err = cfg.Open(c.got, c.lost); err != nil {
		return nil, err
	}
	for _, subject := range []string{allNodes, oneNode + cfg.Boot} {
		if _, err := c.line.Subscribe(subject); err != nil {
			return nil, fmt.Errorf("join the other nodes: %w", err)
		}
	}
	return c, nil
}

// Mailbox is where a cluster replaces the hub: a message routed to the mailbox's router then reaches all nodes.
type Mailbox interface {
	RouteTo(r mailbox.Router, p mailbox.Presence)
}

// Join connects the hub's sessions with the cluster. The hub must have been created with this Cluster as its Peers.
func (c *Cluster) Join(hub *session.Hub, m Mailbox) {
	c.answerSessions(hub)
	c.answerNewest(hub)
	c.hub.Store(hub)
	m.RouteTo(c, everybody{c})
	for _, run := range []func(){c.beat, c.keepRoll, c.tellPresence, c.keepReread} {
		c.ended.Go(run)
	}
}

// Close tells the other nodes that this one ends. It does not close the line.
func (c *Cluster) Close() error {
	c.stop()
	c.ended.Wait()
	c.asks.wait()
	c.updateBackup()
	_ = c.publish(allNodes, message{kind: kindBye})
	ctx, cancel := context.WithTimeout(context.Background(), byePatience)
	defer cancel()
	_ = c.line.Flush(ctx) // a node that misses the message notices the missing heartbeats
	return nil
}

const byePatience = time.Second

// Subjects of messages between nodes.
const (
	allNodes = "n"
	oneNode  = "n."
)

// publish sends a message. The line counts messages that it cannot send, and other nodes notice the loss by the next heartbeat: only
// callers that wait for an answer need the error.
func (c *Cluster) publish(subject string, m message) error {
	return c.publishTo([]string{subject}, m)
}

// publishTo sends a message to several nodes.
func (c *Cluster) publishTo(subjects []string, m message) (err error) {
	m.from = c.cfg.Boot
	buf, _ := buffers.Get().(*[]byte)
	*buf = m.append((*buf)[:0])
	for _, subject := range subjects {
		err = errors.Join(err, c.line.Publish(subject, *buf))
	}
	if cap(*buf) <= keepBuffer {
		buffers.Put(buf)
	}
	return err
}

var buffers = sync.Pool{New: func() any { return new([]byte) }}

const keepBuffer = 64 << 10

// got handles a message from the line.
func (c *Cluster) got(subject string, data []byte) {
	hub := c.hub.Load()
	if hub == nil {
		return
	}
	m, err := decode(data)
	if err != nil || m.from == c.cfg.Boot {
		c.counts.undecoded.Add(1)
		return
	}
	if m.version != version {
		c.unreadable(hub, &m)
		return
	}
	if c.former.twice(c, subject, m.from) {
		return
	}
	switch m.kind {
	case kindItem:
		c.gotItem(hub, &m)
	case kindSettled:
		c.gotSettled(hub, &m)
	case kindInbox:
		c.gotInbox(hub, &m)
	case kindReread:
		hub.Reread(m.app, m.recipient)
	case kindHere:
		c.gotHere(hub, &m)
	case kindClaims, kindStands:
		c.gotStands(&m)
	case kindRoster:
		c.gotRoster(&m)
	case kindNoRoster:
		c.presence.sendAll()
	case kindTable:
		c.gotTable(&m)
	case kindNoTable:
		c.gotNoTable(&m)
	case kindSteps:
		c.gotPart(&c.steps, &m)
	case kindTraces:
		c.gotPart(&c.traces, &m)
	case kindBadges:
		c.gotPart(&c.badges, &m)
	case kindBeat:
		c.gotBeat(&m)
	case kindBye:
		c.gotBye(&m)
	case kindAsk:
		c.gotAsk(&m)
	case kindAnswer:
		c.gotAnswer(&m)
	}
}

// unreadable skips a message of another version. If it was for a recipient, the recipient's sessions read the store.
func (c *Cluster) unreadable(hub *session.Hub, m *message) {
	c.counts.undecoded.Add(1)
	if m.recipient != "" {
		hub.Reread(m.app, m.recipient)
	}
}
