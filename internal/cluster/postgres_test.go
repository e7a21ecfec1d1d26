package cluster_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/notify/inbox"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/objects/object"
	"godwit.dev/godwit/internal/objects/object/objectstore"
	"godwit.dev/godwit/internal/objects/signal"
	mailboxes "godwit.dev/godwit/internal/store/postgres/mailboxdb"
	"godwit.dev/godwit/internal/store/postgres/objectdb"
	"godwit.dev/godwit/internal/store/postgres/pgtest"
	"godwit.dev/godwit/internal/testkit/eventually"
	"godwit.dev/godwit/internal/testkit/thorough"
)

// newPostgres makes nodes as in production: each has its own connections to one PostgreSQL. Unless looks is set, a node learns of other
// nodes' changes of objects only from the bus.
func newPostgres(t testing.TB, n int, looks bool) *world {
	t.Helper()
	url, mails, objects := pgtest.URL(t), pgtest.Schema(t), pgtest.Schema(t)
	w := &world{t: t}
	w.open = func(n *node, now func() time.Time) {
		st, err := mailboxes.Open(t.Context(), mailboxes.Config{URL: url, Schema: mails})
		if err != nil {
			t.Fatal(err)
		}
		n.store, n.inboxes = st, &changingInboxes{Store: st}
		ob, err := objectdb.Open(t.Context(), objectdb.Config{URL: url, Schema: objects})
		if err != nil {
			t.Fatal(err)
		}
		var objects objectstore.Store = ob
		if !looks {
			objects = struct{ objectstore.Store }{ob}
		}
		n.objects = signal.New(signal.Config{Store: objects, Now: now})
		t.Cleanup(func() {
			for _, end := range []func() error{st.Close, ob.Close} {
				if err := end(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	return w.startAll(n)
}

// put changes an object at a node.
func (n *node) put(name string, version int64) {
	n.w.t.Helper()
	_, _, err := n.objects.Put(context.Background(), "demo", object.Key{Group: "g", Object: name}, &object.Put{Version: object.Version(version)})
	if err != nil {
		n.w.t.Fatal(err)
	}
}

func (c *client) register(names ...string) {
	f := &frame.Client{Kind: frame.KindRegister}
	for _, n := range names {
		f.Objects = append(f.Objects, []byte(n))
	}
	c.s.Frame(f)
}

func TestChangeOfAnObjectReachesWatchersOnOtherNodes(t *testing.T) {
	w := newPostgres(t, 2, false)
	w.nodes[0].put("config", 1)
	c := w.nodes[1].connect("unit", "")
	c.register("config")
	c.wait("object config 1")
	for v := range int64(20) {
		w.nodes[0].put("config", v+2)
	}
	c.wait("object config 21")
}

func TestChangeThatTheBusLosesIsFoundInTheStore(t *testing.T) {
	w := newPostgres(t, 2, true)
	c := w.nodes[1].connect("unit", "")
	c.register("config")
	c.wait("object config")
	w.nodes[1].cut.Store(true)
	w.nodes[0].put("config", 3)
	c.wait("object config 3")
}

// unit is a recipient that connects to one node after the other.
type unit struct {
	name string
	mu   sync.Mutex
	got  map[string]bool
}

// live stays connected to a node for a while and acknowledges all notifications.
func (u *unit) live(n *node, until <-chan struct{}, d time.Duration) {
	c := n.connect(u.name, "")
	defer c.leave()
	end := time.After(d)
	seen := 0
	for {
		frames := c.all()
		for _, f := range frames[seen:] {
			if id, ok := strings.CutPrefix(f, "notification "); ok {
				u.mu.Lock()
				u.got[id] = true
				u.mu.Unlock()
				c.ack(id)
			}
		}
		seen = len(frames)
		select {
		case <-c.more:
		case <-until:
			return
		case <-end:
			return
		}
	}
}

func (u *unit) has(ids []string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return !slices.ContainsFunc(ids, func(id string) bool { return !u.got[id] })
}

// TestNothingIsLostWhileNodesAreCutOff moves recipients between nodes and publishes at all of them, while one node after the other is cut
// off the bus.
func TestNothingIsLostWhileNodesAreCutOff(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	t.Parallel()
	w := newPostgres(t, 3, true)
	const recipients = 12
	rounds := thorough.Rounds(20*recipients, 400)
	stop := make(chan struct{})
	var living, chaos sync.WaitGroup
	units := make([]*unit, recipients)
	for i := range units {
		u := &unit{name: fmt.Sprintf("r%d", i), got: map[string]bool{}}
		units[i] = u
		living.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					u.live(w.nodes[rand.IntN(len(w.nodes))], stop, time.Duration(200+rand.IntN(1500))*time.Millisecond)
				}
			}
		})
	}
	chaos.Go(func() {
		for {
			n := w.nodes[rand.IntN(len(w.nodes))]
			n.cut.Store(true)
			select {
			case <-stop:
			case <-time.After(time.Duration(300+rand.IntN(2000)) * time.Millisecond):
			}
			n.cut.Store(false)
			select {
			case <-stop:
				return
			case <-time.After(200 * time.Millisecond):
			}
		}
	})
	published := make([][]string, recipients)
	var all sync.WaitGroup
	for i := range units {
		all.Go(func() {
			for k := range rounds / recipients {
				id := fmt.Sprintf("%s-%d", units[i].name, k)
				w.nodes[rand.IntN(len(w.nodes))].publish(units[i].name, id)
				published[i] = append(published[i], id)
				w.nodes[rand.IntN(len(w.nodes))].put("o"+units[i].name, int64(k+1))
				<-time.After(time.Duration(rand.IntN(200)) * time.Millisecond)
			}
		})
	}
	all.Wait()
	for i, u := range units {
		eventually.True(t, u.name+" has got all that was published for it", func() bool { return u.has(published[i]) })
	}
	close(stop)
	living.Wait()
	chaos.Wait()
	for i, u := range units {
		for _, id := range published[i] {
			eventually.True(t, id+" is settled", func() bool {
				rs, err := w.nodes[0].mail.Lookup(t.Context(), "demo", id, u.name)
				return err == nil && len(rs) == 1 && rs[0].Status == notification.Acked
			})
		}
		heads, err := w.nodes[1].store.Heads(t.Context(), []mailbox.Address{{App: "demo", Recipient: u.name}})
		if err != nil || heads[0].Waits {
			t.Errorf("%s: %+v, %v", u.name, heads, err)
		}
	}
}

// changingInboxes changes an inbox at another node after its counts were read for a welcome, and before that node knows of the session.
type changingInboxes struct {
	*mailboxes.Store
	change func()
}

func (c *changingInboxes) InboxCounts(ctx context.Context, app, recipient string) (inbox.Counts, error) {
	counts, err := c.Store.InboxCounts(ctx, app, recipient)
	if do := c.change; do != nil {
		c.change = nil
		do()
	}
	return counts, err
}

func TestInboxThatAnotherNodeChangesDuringAHelloIsTold(t *testing.T) {
	w := newPostgres(t, 2, false)
	here, there := w.nodes[0], w.nodes[1]
	keep := func(n *notification.Notification) {
		n.Ack, n.Content.Inbox = notification.AckNone, &notification.Inbox{Keep: 24 * time.Hour}
	}
	here.publish("anna", "first", keep)
	here.inboxes.change = func() { there.publish("anna", "second", keep) }
	c := here.connect("anna", "phone")
	c.wait("inbox 2 unseen")
	yes := true
	if _, err := there.inboxes.MarkInbox(t.Context(), "demo", "anna", inbox.Mark{From: 1, To: 100, Seen: &yes, At: time.Now()}); err != nil {
		t.Fatal(err)
	}
	c.wait("inbox 0 unseen")
}
