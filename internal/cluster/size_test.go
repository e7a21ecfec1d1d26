package cluster_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/notify/session"
	"godwit.dev/godwit/internal/testkit/eventually"
)

// mute is a connection that discards all writes.
type mute struct{}

func (mute) Format() frame.Format                        { return frame.JSON }
func (mute) Name() string                                { return "test" }
func (mute) Pause()                                      {}
func (mute) Resume()                                     {}
func (mute) Probe()                                      {}
func (mute) Write(frame.ServerKind, []byte, []byte) bool { return true }
func (mute) Close(frame.Goodbye)                         {}

// used returns the memory of this process in bytes.
func used() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

// TestConnectedRecipientCostsFewBytes limits the memory that a connected recipient takes on the nodes of a cluster after all hellos are
// handled: its session and both nodes' data about it, in one process.
func TestConnectedRecipientCostsFewBytes(t *testing.T) {
	if testing.Short() {
		t.Skip("waits until what follows a storm of hellos is over")
	}
	w := newWorld(t, 2)
	one := w.nodes[0]
	one.quiet()
	const n, most = 20_000, 700
	before := used()
	for i := range n {
		s := one.hub.Accept(mute{}, session.Peer{})
		s.Frame(&frame.Client{Kind: frame.KindHello, Hello: &frame.Hello{App: "demo", Recipient: fmt.Sprint("recipient-", i), Group: "g", Window: 64, Heartbeat: time.Hour}})
	}
	eventually.True(t, "all are connected", func() bool { return one.hub.Live() > n })
	least := ^uint64(0)
	defer func() { t.Logf("at least %d bytes a recipient and session, on both nodes together", least) }()
	eventually.True(t, fmt.Sprintf("each costs at most %d bytes", most), func() bool {
		least = min(least, (max(used(), before)-before)/n)
		return least <= most && one.hub.Live() > n
	})
}
