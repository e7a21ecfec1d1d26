package redisstream

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/session"
	"godwit.dev/godwit/internal/testkit/eventually"
	"godwit.dev/godwit/internal/testkit/redisserver/redistest"
)

// app is a hub over a store, as in the server, with its connected clients.
type app struct {
	t     *testing.T
	store *Store
	hub   *session.Hub
	stop  func()
}

// serveApp runs a hub over a store until the test ends or it is stopped.
func serveApp(t *testing.T, urls ...string) *app {
	t.Helper()
	s, err := Open(t.Context(), Config{URLs: urls, App: "rides", MaxShards: 128})
	if err != nil {
		t.Fatal(err)
	}
	a := &app{t: t, store: s}
	a.hub = session.NewHub(session.Config{
		Store: s, Mailbox: s, Verifier: anybody{}, Log: quiet(), Now: mailbox.Clock(), Peers: comings{s},
	})
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.Run(ctx) })
	a.stop = sync.OnceFunc(func() {
		_ = a.hub.Close()
		stop()
		wg.Wait()
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(a.stop)
	return a
}

// comings reports to the store which clients are online.
type comings struct{ s *Store }

func (c comings) Came(_, recipient string, first bool) {
	if first {
		c.s.Joined(recipient)
	}
}

func (c comings) Left(_, recipient string, last bool) {
	if last {
		c.s.Left(recipient)
	}
}

func (comings) Flush(context.Context) error    { return nil }
func (comings) Online(string, string) []string { return nil }

// anybody is let in.
type anybody struct{}

func (anybody) Known(c access.Claim) (access.Client, error) {
	return access.Client{App: "rides", Recipient: c.Recipient}, nil
}

func (a anybody) Client(_ context.Context, c access.Claim) (access.Client, error) { return a.Known(c) }

// client is a connection that acknowledges what it gets, unless its test disables that.
type client struct {
	s    *session.Session
	mute bool
	todo chan string
	done sync.WaitGroup

	mu  sync.Mutex
	got []string
}

func (a *app) connect(name string, mute bool) *client {
	todo := make(chan string, 4096)
	c := &client{mute: mute, todo: todo}
	c.s = a.hub.Accept(c, session.Peer{})
	c.done.Go(func() {
		for id := range todo {
			c.s.Frame(&frame.Client{Kind: frame.KindAck, IDs: [][]byte{[]byte(id)}})
		}
	})
	c.s.Frame(&frame.Client{Kind: frame.KindHello, Hello: &frame.Hello{Recipient: name}})
	return c
}

func (c *client) close() {
	c.s.Closed()
	c.mu.Lock()
	close(c.todo)
	c.todo = nil
	c.mu.Unlock()
	c.done.Wait()
}

func (c *client) ids() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.got)
}

// once lists the ids in the order of their first arrival: on a slow machine an entry may be sent again before it is
// acknowledged.
func (c *client) once() (list []string) {
	seen := make(map[string]bool)
	for _, id := range c.ids() {
		if !seen[id] {
			seen[id] = true
			list = append(list, id)
		}
	}
	return list
}

func (*client) Format() frame.Format { return frame.JSON }
func (*client) Name() string         { return "test" }
func (*client) Pause()               {}
func (*client) Resume()              {}
func (*client) Probe()               {}
func (*client) Close(frame.Goodbye)  {}

func (c *client) Write(k frame.ServerKind, head, tail []byte) bool {
	if k != frame.ServerNotification {
		return true
	}
	var f struct{ Notification struct{ ID string } }
	if err := json.Unmarshal(slices.Concat(head, tail), &f); err != nil {
		panic(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.got = append(c.got, f.Notification.ID)
	if !c.mute && c.todo != nil {
		c.todo <- f.Notification.ID
	}
	return true
}

func TestSessionsGetEverythingInOrderAndSettleIt(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	w := newWorld(t, s.URL())
	a := serveApp(t, s.URL())
	const clients, each = 20, 100
	var want []string
	for i := range each {
		want = append(want, strconv.Itoa(i))
	}
	name := func(i int) string { return fmt.Sprintf("00000000-0000-0000-0000-%012d", i) }
	var all []*client
	for i := range clients {
		w.addMany(name(i), want[:30]) // before they come
		all = append(all, a.connect(name(i), false))
	}
	for i := range clients {
		w.addMany(name(i), want[30:])
	}
	for i, c := range all {
		eventually.True(t, "all for "+name(i), func() bool { return len(c.once()) >= each })
		if got := c.once(); !slices.Equal(got, want) {
			t.Errorf("%s got %v", name(i), got)
		}
		w.untilLeft(name(i), 0)
	}
	for _, c := range all {
		c.close()
	}
	for i := range clients {
		eventually.True(t, name(i)+" being forgotten", func() bool { return a.store.online(name(i)) == nil })
	}
}

func TestASecondConnectionGetsWhatTheFirstDidNotAcknowledge(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	w := newWorld(t, s.URL())
	a := serveApp(t, s.URL())
	w.addMany(driver, []string{"a", "b"})
	first := a.connect(driver, true)
	eventually.True(t, "the first connection's", func() bool { return len(first.once()) == 2 })
	second := a.connect(driver, false)
	eventually.True(t, "the second connection's", func() bool { return slices.Equal(second.once(), []string{"a", "b"}) })
	w.untilLeft(driver, 0)
	first.close()
	second.close()
}

// Redis is killed during deliveries, and then another store replaces the first one.
func TestNothingIsLostWhenRedisIsKilled(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	w := newWorld(t, s.URL())
	a := serveApp(t, s.URL())
	c := a.connect(driver, false)
	published := 0
	more := func(n int) {
		for range n {
			w.add(driver, strconv.Itoa(published))
			published++
		}
	}
	more(50)
	for range 3 {
		s.Kill()
		if err := s.Restart(); err != nil {
			t.Fatal(err)
		}
		w.reconnect()
		more(50)
	}
	c.close()
	a.stop()
	more(50)
	b := serveApp(t, s.URL())
	d := b.connect(driver, false)
	w.untilLeft(driver, 0)
	got := make(map[string]bool)
	for _, id := range append(c.ids(), d.ids()...) {
		got[id] = true
	}
	if len(got) != published {
		t.Errorf("%d of %d came", len(got), published)
	}
	d.close()
}

func TestNothingThatRedisKeptIsLostWhenAMasterIsKilled(t *testing.T) {
	t.Parallel()
	servers := redistest.StartCluster(t, true)
	w := newWorld(t, servers.URLs()...)
	a := serveApp(t, servers.URLs()...)
	if !a.store.Cluster() {
		t.Fatal("it is not taken for a cluster")
	}
	const clients = 30
	name := func(i int) string { return fmt.Sprintf("00000000-0000-0000-0000-%012d", i) }
	var all []*client
	for i := range clients {
		all = append(all, a.connect(name(i), false))
	}
	stored := make([][]string, clients)
	publish := func(n int) (whole bool) {
		whole = true
		for i := range clients {
			id := strconv.Itoa(n)
			if w.try(name(i), id) == nil {
				stored[i] = append(stored[i], id)
			} else {
				whole = false
			}
		}
		return whole
	}
	n := 0
	for ; n < 10; n++ {
		publish(n)
	}
	servers.Masters[1].Kill()
	if publish(n) {
		t.Error("everybody is published to without a master")
	}
	n++
	if err := servers.Promote(1); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "everybody being published to again", func() bool {
		n++
		return publish(n - 1)
	})
	// The replica may lack the master's last writes: only the entries that it has must arrive.
	for i := range clients {
		eventually.True(t, "all of "+name(i)+" being delivered and deleted", func() bool {
			left, err := w.redis.Do(t.Context(), w.redis.B().Xlen().Key(Key(name(i), 128)).Build()).AsInt64()
			return err == nil && left == 0
		})
		got := make(map[string]bool)
		for _, id := range all[i].ids() {
			got[id] = true
		}
		lost := 0
		for _, id := range stored[i] {
			if !got[id] {
				lost++
			}
		}
		if slot := int(w.publisher.slotOf(Key(name(i), 128))); lost > 0 && slot >= slots/3 && slot < 2*slots/3 {
			t.Logf("%s: %d that the killed master had answered did not reach its replica", name(i), lost)
		} else if lost > 0 {
			t.Errorf("%s lacks %d of %d", name(i), lost, len(stored[i]))
		}
		all[i].close()
	}
	eventually.True(t, "it being ready", func() bool { return a.store.Ready(t.Context()) == nil })
}
