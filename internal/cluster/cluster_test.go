package cluster_test

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"godwit.dev/godwit/internal/messaging/bus"
	"godwit.dev/godwit/internal/messaging/request"
	"godwit.dev/godwit/internal/messaging/topic"
	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/notify/session"
	"godwit.dev/godwit/internal/objects/object/objectstore"
	"godwit.dev/godwit/internal/testkit/eventually"
)

// routedTotal is the metric of the notifications that a node has sent to others.
const routedTotal = "godwit_cluster_routed_total"

// routes waits until another node routes to a session: the comparisons with the store after the hello are then over.
func (w *world) routes(from *node, to *client, recipient string) {
	w.t.Helper()
	i := 0
	eventually.True(w.t, "what is stored at the one node is routed to the other", func() bool {
		i++
		id := fmt.Sprintf("try-%s-%d", recipient, i)
		before, routed := len(to.all()), from.counted(routedTotal)
		from.publish(recipient, id)
		for end := time.Now().Add(100 * time.Millisecond); time.Now().Before(end); time.Sleep(time.Millisecond) {
			if to.has("notification " + id) { // checked because a comparison with the store may also have delivered it
				return len(to.all()) > before && from.counted(routedTotal) > routed
			}
		}
		return false
	})
}

func TestNotificationReachesTheNodeThatHasTheSession(t *testing.T) {
	w := newWorld(t, 3)
	c := w.nodes[1].connect("ann", "")
	w.routes(w.nodes[0], c, "ann")
	const n = 200
	for i := range n {
		w.nodes[2*(i%2)].publish("ann", fmt.Sprintf("n%d", i))
	}
	c.wait(fmt.Sprintf("notification n%d", n-1))
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := 1; i < len(c.seqs); i++ {
		if c.seqs[i] != c.seqs[i-1]+1 {
			t.Fatalf("seq %d came after %d", c.seqs[i], c.seqs[i-1])
		}
	}
}

func TestRoutedNotificationIsTheSameOnEveryNode(t *testing.T) {
	w := newWorld(t, 2)
	now := time.Now().Truncate(time.Millisecond)
	full := func(n *notification.Notification) {
		n.Content = notification.Content{Title: "t", Body: "b\n\"", Category: "c", Data: []byte(`{"a":1}`), ContentType: "application/json"}
		n.Priority, n.Ack = notification.High, notification.AckAll
		n.CreatedAt, n.ExpiresAt = now, now.Add(time.Hour)
		n.ReplyBy = n.ExpiresAt // as a publish makes it
	}
	raw := func(n *node) *recorder { return n.record("ann", frame.JSON) }
	here, there := raw(w.nodes[0]), raw(w.nodes[1])
	w.routes(w.nodes[0], there.client, "ann")
	w.nodes[0].publish("ann", "full", full)
	there.wait("notification full")
	here.wait("notification full")
	attempt := regexp.MustCompile(`"attempt":\d+,`) // grows where a busy node reads the store after another has sent
	if a, b := attempt.ReplaceAllString(here.text("full"), ""), attempt.ReplaceAllString(there.text("full"), ""); a != b || !strings.Contains(a, `"high"`) {
		t.Errorf("here\n%s\nthere\n%s", a, b)
	}
}

func TestAckOnOneNodeIsARecallOnTheOther(t *testing.T) {
	w := newWorld(t, 2)
	phone, tablet := w.nodes[0].connect("ann", "phone"), w.nodes[1].connect("ann", "tablet")
	w.routes(w.nodes[0], tablet, "ann")
	w.nodes[0].publish("ann", "n1")
	phone.wait("notification n1")
	tablet.wait("notification n1")
	tablet.ack("n1")
	phone.wait("recall n1")
	w.nodes[1].publish("ann", "n2")
	phone.wait("notification n2")
	tablet.wait("notification n2")
	if n, err := w.nodes[0].mail.Recall(t.Context(), "demo", "n2", ""); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	phone.wait("recall n2")
	tablet.wait("recall n2")
	if phone.has("recall n1") == false || tablet.has("recall n1") {
		t.Error("the device that acknowledged is told to take it back")
	}
}

func TestAckAllWaitsForDevicesOnOtherNodes(t *testing.T) {
	w := newWorld(t, 2)
	one, other := w.nodes[0].connect("ann", ""), w.nodes[1].connect("ann", "") // without a device, so the store records them only while online
	w.routes(w.nodes[0], other, "ann")
	w.routes(w.nodes[1], one, "ann")
	// Two sessions that start at the same moment may learn of each other only by a repeated report.
	eventually.True(t, "the node where it is acknowledged knows of the other device", func() bool {
		return len(w.nodes[0].cluster.Online("demo", "ann")) == 1
	})
	status := func(id string) notification.Status {
		rs, err := w.nodes[0].mail.Lookup(t.Context(), "demo", id, "ann")
		if err != nil || len(rs) != 1 {
			t.Fatal(rs, err)
		}
		return rs[0].Status
	}
	w.nodes[0].publish("ann", "n1", ackAll)
	one.wait("notification n1")
	other.wait("notification n1")
	one.ack("n1")
	one.ack("unknown") // is settled after the other
	w.nodes[0].publish("ann", "n2")
	one.wait("notification n2")
	if s := status("n1"); s == notification.Acked {
		t.Fatal("settled while a device on another node has not acknowledged")
	}
	other.ack("n1")
	eventually.True(t, "all have acknowledged", func() bool { return status("n1") == notification.Acked })
	// An acknowledgement over the API asks all nodes.
	w.nodes[0].publish("ann", "n3", ackAll)
	eventually.True(t, "every node says in time who is online", func() bool {
		n, err := w.nodes[0].mail.Ack(t.Context(), "demo", "ann", "", []string{"n3"})
		if err == nil && n != 1 || err != nil && !errors.Is(err, topic.ErrUnavailable) {
			t.Fatal(n, err)
		}
		return err == nil
	})
	if s := status("n3"); s == notification.Acked {
		t.Error("settled by the API while two devices have not acknowledged")
	}
}

// TestArrivalsDuringPartitionAreKnownAfterwards: otherwise a notification with ack "all" would be settled before a device on the other node
// has acknowledged it.
func TestArrivalsDuringPartitionAreKnownAfterwards(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	w.nodes[1].cut.Store(true)
	w.nodes[0].connect("ann", "")
	w.nodes[1].connect("ann", "")
	begun := time.Now()
	eventually.True(t, "it is not said again of itself", func() bool { return time.Since(begun) > 6*time.Second })
	w.nodes[1].cut.Store(false)
	for _, n := range w.nodes {
		eventually.True(t, n.name+" knows of the session at the other node", func() bool { return len(n.cluster.Online("demo", "ann")) == 1 })
	}
}

func TestDeviceReplacesItsSessionOnAnotherNode(t *testing.T) {
	w := newWorld(t, 1)
	w.ahead = time.Millisecond // clocks here differ by at most this
	w.joined(w.nodes[0], w.start("node-1"))
	first := w.nodes[0].connect("ann", "phone")
	w.routes(w.nodes[1], first, "ann")
	second := w.nodes[1].connect("ann", "phone")
	first.wait("goodbye replaced")
	other := w.nodes[0].connect("ann", "tablet")
	w.routes(w.nodes[1], other, "ann")
	if second.has("goodbye replaced") || other.has("goodbye replaced") {
		t.Error("another session was replaced")
	}
}

func TestSessionsOfAllNodesAreListedAndEnded(t *testing.T) {
	w := newWorld(t, 3)
	c := []*client{w.nodes[0].connect("ann", "a"), w.nodes[1].connect("ann", "b"), w.nodes[2].connect("ben", "c")}
	list := func() (devices []string) {
		var live [][]session.Info
		eventually.True(t, "every node says in time what sessions it has", func() bool {
			var partial bool
			var err error
			if live, partial, err = w.nodes[2].cluster.Sessions(t.Context(), "demo", []string{"ann", "ben", "none"}); err != nil || len(live) != 3 {
				t.Fatal(live, err)
			}
			return !partial
		})
		for i, of := range live {
			for _, s := range of {
				devices = append(devices, fmt.Sprintf("%d %s %s", i, s.Device, s.Node))
			}
		}
		slices.Sort(devices)
		return devices
	}
	if got, want := list(), []string{"0 a node-0", "0 b node-1", "1 c "}; !slices.Equal(got, want) {
		t.Errorf("listed %q, want %q", got, want)
	}
	if live, _, _ := w.nodes[0].cluster.Sessions(t.Context(), "other", []string{"ann"}); len(live[0]) != 0 {
		t.Error("sessions of another app are listed")
	}
	if n, partial, err := w.nodes[2].cluster.Disconnect(t.Context(), "demo", "ann", "disconnected"); n != 2 && !partial || err != nil {
		t.Error(n, partial, err)
	}
	c[0].wait("goodbye disconnected")
	c[1].wait("goodbye disconnected")
	eventually.True(t, "the sessions that ended are not listed any more", func() bool { return slices.Equal(list(), []string{"1 c "}) })
	w.nodes[1].publish("ben", "n1")
	c[2].wait("notification n1")
	eventually.True(t, "every node says in time which sessions are slow", func() bool {
		lags, partial, err := w.nodes[0].cluster.Slowest(t.Context(), "demo", "unacked", 10)
		if err != nil || !partial && (len(lags) != 1 || lags[0].Node != "node-2") {
			t.Fatal(lags, partial, err)
		}
		return !partial
	})
}

func TestCutOffNodeIsMissedAndItsSessionsReadTheStore(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	c := w.nodes[1].connect("ann", "")
	w.routes(w.nodes[0], c, "ann")
	w.nodes[1].quiet()
	w.nodes[1].cut.Store(true)
	w.nodes[0].publish("ann", "n1")
	begun := time.Now()
	c.wait("notification n1")
	t.Logf("read after %s", time.Since(begun))
	if live, partial, err := w.nodes[0].cluster.Sessions(t.Context(), "demo", []string{"ann"}); err != nil || !partial || len(live[0]) != 0 {
		t.Errorf("while a node is cut off: %v, partial %t, %v", live, partial, err)
	}
	if _, err := w.nodes[0].mail.Ack(t.Context(), "demo", "ann", "", []string{"n1"}); !errors.Is(err, topic.ErrUnavailable) {
		t.Errorf("acknowledged over the API while nobody knows who is online: %v", err)
	}
	w.nodes[1].cut.Store(false)
	w.joined(w.nodes...)
	w.routes(w.nodes[0], c, "ann")
	if c.count("notification n1") != 1 {
		t.Error("written more than once")
	}
}

// lookers counts the calls that report that changes of objects may be missing.
type lookers struct{ told atomic.Int32 }

func (l *lookers) Heard([]objectstore.Change)              {}
func (l *lookers) TellOthers(func(b []objectstore.Change)) {}
func (l *lookers) Missed()                                 { l.told.Add(1) }

// TestObjectsAreLookedForAsLongAsANodeIsNotHeard: lookers are called repeatedly while a node is not heard.
func TestObjectsAreLookedForAsLongAsANodeIsNotHeard(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	w.roll = func() ([]string, error) { return []string{"boot0000", "boot0001"}, nil }
	w.startAll(2)
	l := &lookers{}
	if err := w.nodes[1].cluster.JoinObjects(w.nodes[1].line(bus.Objects), l); err != nil {
		t.Fatal(err)
	}
	w.nodes[1].quiet()
	w.nodes[1].cut.Store(true)
	before := l.told.Load()
	eventually.True(t, "objects are told time and again", func() bool { return l.told.Load() > before+5 })
}

func TestLostMessageCausesEarlyRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	c := w.nodes[1].connect("ann", "")
	w.routes(w.nodes[0], c, "ann")
	w.nodes[1].quiet()
	w.nodes[1].cut.Store(true)
	w.nodes[0].publish("ann", "lost")
	eventually.True(t, "a beat is lost too", func() bool { return w.nodes[1].deaf.Load() > 0 })
	w.nodes[1].cut.Store(false) // too soon to be missed
	begun := time.Now()
	c.wait("notification lost")
	t.Logf("read after %s", time.Since(begun))
}

// TestRecipientMissingInTableIsReadAndThenKnown: while a node misses the messages about arrived recipients, notifications reach a recipient
// through the store, and by routing after the messages arrive again.
func TestRecipientMissingInTableIsReadAndThenKnown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	w.nodes[0].loses.Store(true)
	c := w.nodes[1].connect("ann", "")
	w.nodes[0].publish("ann", "n1")
	c.wait("notification n1")
	w.nodes[0].loses.Store(false)
	w.routes(w.nodes[0], c, "ann")
}

// TestMessagesForNoOtherNodeAreNotSent: a notification goes only to the nodes to which its recipient is connected.
func TestMessagesForNoOtherNodeAreNotSent(t *testing.T) {
	w := newWorld(t, 3)
	here, there := w.nodes[0].connect("ann", ""), w.nodes[1].connect("ben", "")
	w.routes(w.nodes[0], there, "ben")
	const sent, came = routedTotal, "godwit_cluster_received_total"
	before := w.nodes[0].counted(sent)
	for i := range 20 {
		w.nodes[0].publish("ann", fmt.Sprintf("n%d", i))
	}
	here.wait("notification n19")
	if n := w.nodes[0].counted(sent) - before; n != 0 {
		t.Errorf("%v notifications for somebody who is connected here were sent", n)
	}
	w.nodes[0].publish("ben", "last")
	there.wait("notification last")
	if n := w.nodes[0].counted(sent) - before; n != 1 {
		t.Errorf("%v notifications were sent, want one", n)
	}
	if n := w.nodes[2].counted(came); n != 0 {
		t.Errorf("a node that nobody is connected to got %v notifications", n)
	}
}

// TestRepeatedPublishCausesReadAtOnce: a node stores a notification and dies before it routes it; the publisher tries again.
func TestRepeatedPublishCausesReadAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	c := w.nodes[1].connect("ann", "")
	w.routes(w.nodes[0], c, "ann")
	w.nodes[1].quiet()
	w.nodes[1].cut.Store(true)
	w.nodes[0].publish("ann", "unrouted")
	w.nodes[1].cut.Store(false)
	w.nodes[0].publishAgain("ann", "unrouted")
	begun := time.Now()
	c.wait("notification unrouted")
	t.Logf("read after %s", time.Since(begun))
}

func TestSecondNodeOfANameIsRefused(t *testing.T) {
	w := newWorld(t, 1)
	second := w.start("node-0")
	select {
	case err := <-second.taken:
		if !strings.Contains(err.Error(), "node-0") || !strings.Contains(err.Error(), "--node") {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("two nodes of one name live side by side")
	}
	select {
	case err := <-w.nodes[0].taken:
		t.Errorf("the first has to end: %v", err)
	default:
	}
	second.close()
	third := w.start("node-1")
	w.joined(w.nodes[0], third)
}

func TestNodeThatLeavesIsNotMissed(t *testing.T) {
	w := newWorld(t, 3)
	gone := w.nodes[2].connect("ann", "phone")
	w.routes(w.nodes[0], gone, "ann")
	w.nodes[2].close()
	w.joined(w.nodes[:2]...)
	eventually.True(t, "who is asked of all nodes, the one that left is not", func() bool {
		_, partial, err := w.nodes[0].cluster.Sessions(t.Context(), "demo", []string{"ann"})
		return err == nil && !partial
	})
}

// TestNodesWhoseStoreHangsHearEachOther: a node that cannot reach the store still sends heartbeats.
func TestNodesWhoseStoreHangsHearEachOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	asked, answer := make(chan struct{}, 100), make(chan struct{})
	w.roll = func() ([]string, error) {
		asked <- struct{}{}
		<-answer
		return nil, errors.New("it was too late")
	}
	for i := range 2 {
		w.start(fmt.Sprint("node-", i))
	}
	t.Cleanup(func() { close(answer) })
	w.joined(w.nodes...)
	<-asked
	<-asked
	begun := time.Now()
	eventually.True(t, "a silent node would be missed", func() bool { return time.Since(begun) > 5*time.Second })
	w.joined(w.nodes...)
	for _, n := range w.nodes {
		for _, other := range n.cluster.Nodes() {
			if other.Missing {
				t.Errorf("%s is missed", other.Name)
			}
		}
	}
}

func TestRollTellsOfNodesThatAreNotHeard(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	var mu sync.Mutex
	alive := []string{"boot0000", "boot0001"}
	w.roll = func() ([]string, error) {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(alive), nil
	}
	n := w.start("node-0")
	eventually.True(t, "the node of the roll is missing", func() bool {
		list := n.cluster.Nodes()
		return len(list) == 1 && list[0].Boot == "boot0001" && list[0].Missing
	})
	mu.Lock()
	alive = alive[:1]
	mu.Unlock()
	eventually.True(t, "the node is gone", func() bool { return len(n.cluster.Nodes()) == 0 })
}

func TestSessionsHaveTheirNodeInTheirID(t *testing.T) {
	w := newWorld(t, 2)
	a, b := w.nodes[0].connect("ann", ""), w.nodes[1].connect("ben", "")
	if id := a.s.ID(); !strings.HasSuffix(id, ".boot0000") || len(id) != 22+9 {
		t.Errorf("id %s", id)
	}
	if id := b.s.ID(); !strings.HasSuffix(id, ".boot0001") {
		t.Errorf("id %s", id)
	}
}

func TestRecipientIsAskedOnTheNodeOfItsNewestSession(t *testing.T) {
	w := newWorld(t, 1)
	w.ahead = time.Second
	w.joined(w.nodes[0], w.start("node-1"))
	ask := func(n *node, device string) string {
		a, err := n.requests.AskRecipient(t.Context(), "demo", "ann", device, &request.Request{Data: []byte("?")})
		if err != nil {
			return err.Error()
		}
		return string(a.Data)
	}
	if got := ask(w.nodes[0], ""); !strings.Contains(got, request.ErrOffline.Error()) {
		t.Errorf("nobody is connected: %s", got)
	}
	first := w.nodes[0].connect("ann", "a")
	for _, n := range w.nodes {
		if got := ask(n, ""); got != "from node-0 a" {
			t.Errorf("%s got %q", n.name, got)
		}
	}
	second := w.nodes[1].connect("ann", "b")
	w.routes(w.nodes[1], first, "ann")
	w.routes(w.nodes[0], second, "ann")
	eventually.True(t, "the nodes know of both", func() bool {
		return len(w.nodes[0].cluster.Online("demo", "ann")) == 1 && len(w.nodes[1].cluster.Online("demo", "ann")) == 1
	})
	for _, n := range w.nodes {
		if got := ask(n, ""); got != "from node-1 b" {
			t.Errorf("%s got %q of the newest", n.name, got)
		}
		if got := ask(n, "a"); got != "from node-0 a" {
			t.Errorf("%s got %q of device a", n.name, got)
		}
		if got := ask(n, "c"); !strings.Contains(got, request.ErrOffline.Error()) {
			t.Errorf("%s got %q of a device that there is not", n.name, got)
		}
	}
}
