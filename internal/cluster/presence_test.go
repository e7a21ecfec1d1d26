package cluster_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"godwit.dev/godwit/internal/cluster"
	"godwit.dev/godwit/internal/testkit/eventually"
)

// told lists the presence events of a kind that followers have received.
func (w *world) told(kind string) (list []string) {
	for _, p := range w.presence() {
		if strings.HasPrefix(p, kind) {
			list = append(list, p)
		}
	}
	return list
}

func TestFollowersAreToldOnceOfWhoIsOnSeveralNodes(t *testing.T) {
	w := newWorld(t, 3)
	one := w.nodes[0].connect("ann", "a")
	eventually.True(t, "told that it came", func() bool { return slices.Equal(w.presence(), []string{"online ann"}) })
	two := w.nodes[1].connect("ann", "b")
	three := w.nodes[2].connect("ann", "c")
	eventually.True(t, "each knows the others", func() bool {
		for _, n := range w.nodes {
			if len(n.cluster.Online("demo", "ann")) != 2 {
				return false
			}
		}
		return true
	})
	one.leave()
	two.leave()
	eventually.True(t, "the last knows that it is", func() bool { return len(w.nodes[2].cluster.Online("demo", "ann")) == 0 })
	if got := w.presence(); !slices.Equal(got, []string{"online ann"}) {
		t.Errorf("followers were told %q", got)
	}
	three.leave()
	eventually.True(t, "told that it went", func() bool { return slices.Equal(w.presence(), []string{"offline ann", "online ann"}) })
}

func TestFollowersAreToldOnceOfWhoComesToSeveralNodesAtOnce(t *testing.T) {
	t.Run("quick", func(t *testing.T) { toldOnce(t, newWorld(t, 3)) })
	t.Run("slow", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, 0)
		w.slow = 700 * time.Millisecond // longer than a node waits for another's answer
		toldOnce(t, w.startAll(3))
	})
	t.Run("clocks ten minutes apart", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, 0)
		for i := range 3 {
			w.ahead = time.Duration(i-1) * 10 * time.Minute
			w.start(fmt.Sprint("node-", i))
		}
		w.joined(w.nodes...)
		toldOnce(t, w)
	})
}

// toldOnce connects recipients to three nodes at the same time, disconnects them at the same time, and checks that followers get one event
// each.
func toldOnce(t *testing.T, w *world) {
	t.Helper()
	const n = 8
	var all sync.WaitGroup
	clients := make([]*client, 3*n)
	for i := range clients {
		all.Go(func() { clients[i] = w.nodes[i%3].connect(fmt.Sprintf("r%d", i/3), "") })
	}
	all.Wait()
	told := func(kind string) int { return len(w.told(kind)) }
	eventually.True(t, "told of each", func() bool { return told("online") >= n })
	eventually.True(t, "each knows the others", func() bool {
		for i := range n {
			for _, node := range w.nodes {
				if len(node.cluster.Online("demo", fmt.Sprintf("r%d", i))) != 2 {
					return false
				}
			}
		}
		return true
	})
	for _, c := range clients {
		all.Go(c.leave)
	}
	all.Wait()
	eventually.True(t, "told that each went", func() bool { return told("offline") >= n })
	if on, off := told("online"), told("offline"); on != n || off != n {
		t.Errorf("followers were told %d times that somebody came and %d times that somebody went, of %d", on, off, n)
	}
}

// TestRecipientThatLeavesSlowNodeHasLeft: ann leaves another node, which reports nothing, because she is also connected to the slow one.
// When she leaves the slow node, it is still asking whether she came to it first.
func TestRecipientThatLeavesSlowNodeHasLeft(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	w.start("node-0")
	w.slow = 2500 * time.Millisecond // the slow node asks a second time before the first answer arrives
	w.start("node-1")
	w.joined(w.nodes...)
	first := w.nodes[0].connect("ann", "")
	eventually.True(t, "told that it came", func() bool { return slices.Equal(w.presence(), []string{"online ann"}) })
	slow := w.nodes[1].connect("ann", "")
	eventually.True(t, "the first knows of it", func() bool { return len(w.nodes[0].cluster.Online("demo", "ann")) == 1 })
	first.leave()
	eventually.True(t, "the first has decided", func() bool { return !w.nodes[0].cluster.Claims("demo", "ann") })
	if !w.nodes[1].cluster.Claims("demo", "ann") {
		t.Log("the slow node had decided before; nothing is shown")
	}
	slow.leave()
	eventually.True(t, "told that it went", func() bool { return slices.Equal(w.presence(), []string{"offline ann", "online ann"}) })
}

// TestShortVisitIsReportedWholeOrNotAtAll: on a machine so slow that the arrival is reported, the departure must be reported, too.
func TestShortVisitIsReportedWholeOrNotAtAll(t *testing.T) {
	w := newWorld(t, 2)
	for range 3 {
		w.nodes[0].connect("ann", "").leave()
	}
	eventually.True(t, "decided", func() bool {
		return !w.nodes[0].cluster.Claims("demo", "ann") && len(w.told("online")) == len(w.told("offline"))
	})
}

// TestBackupReportsRecipientsOfDeadNode: the backup reports neither recipients that are connected elsewhere nor one that came back before
// the node was known to be dead.
func TestBackupReportsRecipientsOfDeadNode(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	var mu sync.Mutex
	alive := []string{"boot0000", "boot0001", "boot0002"}
	w.roll = func() ([]string, error) {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(alive), nil
	}
	w.startAll(3)
	dead := w.nodes[1]
	const n = 5
	for i := range n {
		dead.connect(fmt.Sprint("gone", i), "")
	}
	dead.connect("back", "")
	dead.connect("both", "")
	left := dead.connect("left", "")
	eventually.True(t, "told that all came", func() bool { return len(w.told("online")) == n+3 })
	w.nodes[0].connect("both", "")
	left.leave()
	eventually.True(t, "told that one went", func() bool { return slices.Equal(w.told("offline"), []string{"offline left"}) })
	eventually.True(t, "each knows the other", func() bool { return len(dead.cluster.Online("demo", "both")) == 1 })
	dead.cut.Store(true) // the other nodes conclude that it is dead
	back := w.nodes[0].connect("back", "")
	eventually.True(t, "it is missed", func() bool {
		return slices.ContainsFunc(w.nodes[0].cluster.Nodes(), func(o cluster.Node) bool { return o.Missing })
	})
	mu.Lock()
	alive = slices.Delete(alive, 1, 2)
	mu.Unlock()
	eventually.True(t, "told that they went", func() bool { return len(w.told("offline")) >= n+1 })
	back.leave()
	eventually.True(t, "told that the one who came back went", func() bool { return len(w.told("offline back")) > 0 })
	if off := w.told("offline"); len(off) != n+2 || len(w.told("offline gone")) != n {
		t.Errorf("followers were told %q", off)
	}
	if on := w.told("online"); len(on) != n+3 {
		t.Errorf("followers were told %q", on)
	}
}

// TestDeparturesAtNodeEndAreReported: a node that ends has no time to ask the others about departures.
func TestDeparturesAtNodeEndAreReported(t *testing.T) {
	w := newWorld(t, 2)
	c := w.nodes[1].connect("ann", "")
	eventually.True(t, "told that it came", func() bool { return len(w.told("online")) == 1 })
	eventually.True(t, "the other node keeps its name", func() bool { return w.nodes[0].cluster.Keeps("demo", "ann") })
	c.leave()
	w.nodes[1].close()
	eventually.True(t, "told that it went", func() bool { return slices.Equal(w.told("offline"), []string{"offline ann"}) })
}
