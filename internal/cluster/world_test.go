package cluster_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/cluster"
	"godwit.dev/godwit/internal/feeds/event"
	"godwit.dev/godwit/internal/messaging/bus"
	"godwit.dev/godwit/internal/messaging/request"
	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/notify/session"
	"godwit.dev/godwit/internal/objects/signal"
	"godwit.dev/godwit/internal/store/sqlite/mailboxdb"
	"godwit.dev/godwit/internal/testkit/eventually"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a cluster of several nodes that share a store, connected by real buses.
type world struct {
	t     testing.TB
	store *shared // nil: each node has its own connections to PostgreSQL
	open  func(n *node, now func() time.Time)
	nodes []*node
	roll  func() ([]string, error)        // nil: there is none
	ahead time.Duration                   // how far the clocks of nodes are ahead that start from now on
	slow  time.Duration                   // delay of messages between nodes that start from now on
	reach func(name string) time.Duration // for how long a node has reached the store; nil: not monitored
	heard func(name string) time.Duration // how long ago the store last answered a node; nil: now
	old   bool                            // nodes that start from now on behave like those of the previous release
}

// node is a server's part in the cluster.
type node struct {
	w        *world
	name     string
	boot     string
	bus      *bus.Bus
	cluster  *cluster.Cluster
	hub      *session.Hub
	mail     *mailbox.Mailbox
	store    mailbox.Store
	view     *view            // nil with PostgreSQL
	inboxes  *changingInboxes // nil without
	objects  *signal.Service
	requests *request.Service
	evs      events
	cut      atomic.Bool // it neither receives nor sends messages
	loses    atomic.Bool // it receives no messages about recipients that are connected to other nodes
	old      bool
	deaf     atomic.Int32 // how many further messages to all nodes it misses
	taken    chan error
	close    func()
}

func newWorld(t testing.TB, n int) *world {
	t.Helper()
	st, err := mailboxdb.Open(t.Context(), filepath.Join(t.TempDir(), "mailbox.db"), mailboxdb.Config{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	w := &world{t: t, store: share(st)}
	w.open = func(n *node, _ func() time.Time) {
		n.view = w.store.view()
		n.store = n.view
	}
	return w.startAll(n)
}

func (w *world) startAll(n int) *world {
	for i := range n {
		w.start(fmt.Sprintf("node-%d", i))
	}
	w.joined(w.nodes...)
	return w
}

// start starts one more node.
func (w *world) start(name string) *node {
	w.t.Helper()
	n := &node{w: w, name: name, boot: fmt.Sprintf("boot%04d", len(w.nodes)), old: w.old, taken: make(chan error, 1)}
	log, ahead, clock := slog.New(slog.DiscardHandler), w.ahead, mailbox.Clock()
	now := func() time.Time { return clock().Add(ahead) }
	w.open(n, now)
	var peers []string
	for _, o := range w.nodes {
		if a := o.bus.ClusterAddr(); a != "" {
			peers = append(peers, a)
		}
	}
	var err error
	if n.bus, err = bus.Start(w.t.Context(), bus.Config{Log: log, Cluster: &bus.Cluster{
		Node: name, Boot: n.boot, Addr: "127.0.0.1:0", Peers: peers, Secret: "the secret of this test",
	}}); err != nil {
		w.t.Fatal(err)
	}
	cfg := cluster.Config{
		Open: n.line(bus.Mailboxes), Node: name, Boot: n.boot, Version: "test", Now: now, Log: log,
		Taken: func(err error) { n.taken <- err },
	}
	if w.roll != nil {
		cfg.Roll = rollOf(w.roll)
	}
	if w.reach != nil {
		cfg.Heard = func() time.Duration {
			if w.heard != nil {
				return w.heard(name)
			}
			return 0 // its word of before
		}
		cfg.Steady = func() time.Duration { return w.reach(name) }
	}
	if n.cluster, err = cluster.New(cfg); err != nil {
		w.t.Fatal(err)
	}
	if w.reach != nil {
		n.cluster.NewDetour(n.store)
	}
	n.mail = mailbox.New(mailbox.Config{Store: n.store, Events: &n.evs, Log: log})
	n.requests = request.New(request.Config{Bus: n.bus})
	can := []session.Capability{n.requests}
	if n.objects != nil {
		can = append(can, n.objects)
	}
	var inboxes session.Inboxes
	if n.inboxes != nil {
		inboxes = n.inboxes
	}
	n.hub = session.NewHub(session.Config{
		Capabilities: can,
		Store:        n.store, Mailbox: n.mail, Verifier: anybody{}, Events: &n.evs, Now: now, Log: log, Peers: n.cluster, Node: n.boot, Inboxes: inboxes,
	})
	n.cluster.Join(n.hub, n.mail)
	n.requests.Find(n.hub)
	n.requests.LookElsewhere(n.cluster)
	n.cluster.AnswerRequests(n.requests.AnswerNode)
	ends := []func() error{n.hub.Close, n.requests.Close, n.cluster.Close, n.bus.Close}
	if n.objects != nil {
		if err := n.cluster.JoinObjects(n.line(bus.Objects), n.objects); err != nil {
			w.t.Fatal(err)
		}
		ends = []func() error{n.hub.Close, n.requests.Close, n.objects.Close, n.cluster.Close, n.bus.Close}
	}
	n.close = sync.OnceFunc(func() {
		for _, end := range ends {
			if err := end(); err != nil {
				w.t.Error(err)
			}
		}
	})
	w.t.Cleanup(n.close)
	w.nodes = append(w.nodes, n)
	return n
}

type rollOf func() ([]string, error)

func (r rollOf) Alive(context.Context) ([]string, error) { return r() }

// line opens a line that cut can interrupt.
func (n *node) line(name string) cluster.Opener {
	return func(got func(string, []byte), lost func()) (cluster.Line, error) {
		if n.w.slow > 0 {
			got = n.later(got)
		}
		l, err := n.bus.Line(name, bus.LineConfig{
			Got: func(subject string, data []byte) {
				switch {
				case n.loses.Load() && data[1] == cluster.KindTable:
				case !n.cut.Load():
					got(subject, n.said(data))
				case subject == "n":
					n.deaf.Add(1)
				}
			},
			Lost: lost,
		})
		return &shears{l, n}, err
	}
}

// later delivers messages with a delay, in order, as an overloaded machine does.
func (n *node) later(got func(string, []byte)) func(string, []byte) {
	type message struct {
		subject string
		data    []byte
		at      time.Time
	}
	late, slow := make(chan message, 1<<16), n.w.slow
	ctx, stop := context.WithCancel(context.Background())
	var handing sync.WaitGroup
	handing.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case m := <-late:
				select {
				case <-ctx.Done():
					return
				case <-time.After(time.Until(m.at)):
					got(m.subject, m.data)
				}
			}
		}
	})
	n.w.t.Cleanup(func() { stop(); handing.Wait() })
	return func(subject string, data []byte) { late <- message{subject, slices.Clone(data), time.Now().Add(slow)} }
}

type shears struct {
	*bus.Line
	n *node
}

func (s *shears) Publish(subject string, data []byte) error {
	if s.n.cut.Load() {
		return nil // lost as in a cut cable
	}
	return s.Line.Publish(subject, s.n.said(data))
}

// said rewrites a message as nodes of the previous release send and read it: heartbeats have no number of a table.
func (n *node) said(data []byte) []byte {
	if !n.old {
		return data
	}
	return bytes.ReplaceAll(data, []byte(`"table":`), []byte(`"chair":`))
}

// joined waits until the nodes know each other.
func (w *world) joined(nodes ...*node) {
	w.t.Helper()
	eventually.True(w.t, "the nodes know each other", func() bool {
		for _, n := range nodes {
			list := n.cluster.Nodes()
			if len(list) != len(nodes)-1 || slices.ContainsFunc(list, func(o cluster.Node) bool { return o.Missing }) {
				return false
			}
		}
		return true
	})
}

// publish stores a notification on a node, and returns after the node has routed it.
func (n *node) publish(to, id string, change ...func(*notification.Notification)) {
	n.w.t.Helper()
	n.append(to, id, change...)
}

// publishAgain publishes a stored id again.
func (n *node) publishAgain(to, id string) {
	n.w.t.Helper()
	if r := n.append(to, id); !r.Duplicate {
		n.w.t.Fatalf("%s was not stored before: %+v", id, r)
	}
}

// append publishes, and retries while the database cannot be reached, as a publisher does: on a slow machine, PostgreSQL may end a
// transaction that was idle.
func (n *node) append(to, id string, change ...func(*notification.Notification)) mailbox.AppendResult {
	n.w.t.Helper()
	now := time.Now()
	m := &notification.Notification{App: "demo", ID: id, Content: notification.Content{Title: "title of " + id}, CreatedAt: now, ExpiresAt: now.Add(time.Hour)}
	for _, c := range change {
		c(m)
	}
	a := &mailbox.Append{N: m, To: []string{to}}
	var err error
	eventually.Holds(func() bool {
		err = n.mail.Append(context.Background(), []*mailbox.Append{a})
		return !errors.Is(err, mailbox.ErrAway)
	})
	if err != nil {
		n.w.t.Fatal(err)
	}
	if a.Results[0].Err != nil {
		n.w.t.Fatal(a.Results[0].Err)
	}
	return a.Results[0]
}

// quiet waits until the comparisons after a hello and after the joining of nodes are over: from then on, sessions read the store only after
// a loss.
func (n *node) quiet() {
	n.w.t.Helper()
	n.connect("idle", "")
	begun, before := time.Now(), n.view.heads.Load()
	eventually.True(n.w.t, "the comparisons after a hello are over", func() bool {
		return time.Since(begun) > 8*time.Second && n.view.heads.Load() > before
	})
}

// counted returns the value of one of a node's metrics.
func (n *node) counted(name string) float64 {
	n.w.t.Helper()
	all := prometheus.NewRegistry()
	all.MustRegister(n.cluster)
	families, err := all.Gather()
	if err != nil {
		n.w.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	n.w.t.Fatalf("%s is not among the metrics", name)
	return 0
}

func ackAll(n *notification.Notification) { n.Ack = notification.AckAll }

type anybody struct{}

func (anybody) Known(c access.Claim) (access.Client, error) {
	return access.Client{App: c.App, Recipient: c.Recipient, Group: c.Group, Device: c.Device, Peek: c.Token == "peek"}, nil
}

func (a anybody) Client(_ context.Context, c access.Claim) (access.Client, error) { return a.Known(c) }

// events stores the events that followers receive, in order.
type events struct {
	mu  sync.Mutex
	all []event.Event
}

func (e *events) Emit(evs []event.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, evs...)
}

// presence lists the arrivals and departures of recipients.
func (w *world) presence() (list []string) {
	for _, n := range w.nodes {
		n.evs.mu.Lock()
		for _, ev := range n.evs.all {
			if ev.Type == event.Online || ev.Type == event.Offline {
				list = append(list, string(ev.Type)+" "+ev.To)
			}
		}
		n.evs.mu.Unlock()
	}
	slices.Sort(list)
	return list
}

// client is a connection that stores the received frames.
type client struct {
	t      testing.TB
	name   string // of its node and device
	s      *session.Session
	mu     sync.Mutex
	frames []string
	seqs   []uint64
	closed *frame.Goodbye
	more   chan struct{}
	f      frame.Format
}

func (n *node) connect(recipient, device string) *client {
	return n.connectAs(recipient, device, "", frame.JSON)
}

func (n *node) connectAs(recipient, device, token string, f frame.Format) *client {
	n.w.t.Helper()
	c := &client{t: n.w.t, name: n.name + " " + device, more: make(chan struct{}, 1), f: f}
	c.s = n.hub.Accept(c, session.Peer{})
	c.s.Frame(&frame.Client{Kind: frame.KindHello, Hello: &frame.Hello{App: "demo", Recipient: recipient, Group: "g", Device: device, Token: token, Window: 1000}})
	c.wait("welcome")
	return c
}

func (c *client) Format() frame.Format { return c.f }
func (c *client) Name() string         { return "test" }
func (c *client) Pause()               {}
func (c *client) Resume()              {}
func (c *client) Probe()               { go c.s.Alive() }

func (c *client) Write(_ frame.ServerKind, head, tail []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed != nil {
		return false
	}
	var f map[string]struct {
		ID, Reason, Title string
		IDs               []string
		Seq               uint64
		Object            string
		RequestID         string `json:"request_id"`
		Version           string
		Unseen            *int
	}
	if err := json.Unmarshal(slices.Concat(head, tail), &f); err != nil {
		c.t.Error(err)
		return false
	}
	for kind, b := range f {
		c.frames = append(c.frames, strings.TrimSpace(kind+" "+b.ID+b.Reason+strings.Join(b.IDs, ",")))
		if b.Seq > 0 {
			c.seqs = append(c.seqs, b.Seq)
		}
		if kind == "request" {
			reply := &frame.Reply{RequestID: []byte(b.RequestID), Status: 200, Data: []byte("from " + c.name)}
			go c.s.Frame(&frame.Client{Kind: frame.KindReply, Reply: reply})
		}
		if kind == "inbox" {
			c.frames[len(c.frames)-1] = fmt.Sprintf("inbox %d unseen", *b.Unseen)
		}
		if kind == "object" {
			c.frames[len(c.frames)-1] = fmt.Sprintf("object %s %s", b.Object, b.Version)
		}
	}
	select {
	case c.more <- struct{}{}:
	default:
	}
	return true
}

func (c *client) Close(g frame.Goodbye) {
	c.mu.Lock()
	c.closed = &g
	c.mu.Unlock()
	go c.s.Closed()
}

func (c *client) leave() { c.s.Closed() }

func (c *client) ack(ids ...string) {
	f := &frame.Client{Kind: frame.KindAck}
	for _, id := range ids {
		f.IDs = append(f.IDs, []byte(id))
	}
	c.s.Frame(f)
}

func (c *client) has(want string) bool { return c.count(want) > 0 }

func (c *client) count(want string) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.frames {
		if f == want {
			n++
		}
	}
	return n
}

// wait waits for a frame.
func (c *client) wait(want string) {
	c.t.Helper()
	end := time.After(time.Minute)
	for !slices.ContainsFunc(c.all(), func(f string) bool { return f == want || strings.HasPrefix(f, want+" ") }) {
		select {
		case <-c.more:
		case <-end:
			c.t.Fatalf("never got %q, only %q", want, c.all())
		}
	}
}

func (c *client) all() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.frames)
}
