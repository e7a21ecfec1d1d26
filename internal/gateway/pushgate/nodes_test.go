package pushgate_test

import (
	"context"
	"testing"
	"time"

	"godwit.dev/godwit/internal/gateway/gatetest"
	"godwit.dev/godwit/internal/gateway/pushgate"
	"godwit.dev/godwit/internal/gateway/pushgate/channeldb"
	"godwit.dev/godwit/internal/store"
	"godwit.dev/godwit/internal/store/postgres/pgtest"
)

// TestDevicesAndSendersMayBeOnDifferentNodes runs two nodes on one PostgreSQL: messages go to the node of the device, which may change.
func TestDevicesAndSendersMayBeOnDifferentNodes(t *testing.T) {
	url := pgtest.Database(t)
	var nodes []*world
	gatetest.StartTwo(t, "", func(s *gatetest.Server) {
		stores, err := store.Open(context.WithoutCancel(t.Context()), store.Config{Data: t.TempDir(), Postgres: url, Node: "n" + string(rune('1'+len(nodes))), Boot: "boot" + string(rune('a'+len(nodes))) + "aaa", MinFree: 1 << 20, Tables: tables()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = stores.Close() })
		w := &world{Server: s, channels: &channeldb.Store{DB: stores.Database(pushgate.Name), Most: 4, Now: time.Now}}
		mount(t, s, w.channels)
		nodes = append(nodes, w)
	})
	one, two := nodes[0], nodes[1]
	d := one.device(t)
	_, endpoint := d.register("")
	from := func(w *world) string { return w.URL + endpoint[len(one.URL):] }
	two.message(t, from(two), "across", sealed("200"))
	known := make(map[string]bool)
	take := func(body string) {
		t.Helper()
		a := d.want(body)
		known[a.Version] = true
		d.ack(a)
	}
	take("across")
	d.disconnect()
	two.message(t, from(two), "stored", sealed("200"))
	d.at = two.URL
	if former := d.uaid; d.connect().UAID != former {
		t.Fatal("the other node does not know the device")
	}
	take("stored")
	one.message(t, from(one), "back", sealed("200"))
	take("back")

	again := &device{t: t, w: one, at: one.URL, uaid: d.uaid} // the same device on the first node ends its session on the second
	again.connect()
	d.closed()
	two.message(t, from(two), "moved", sealed("200"))
	next := again.next()
	for known[next.Version] { // acknowledgements come to the disk a moment later
		next = again.next()
	}
	if next.Data == nil || *next.Data != "bW92ZWQ" {
		t.Errorf("%+v came, want moved", next)
	}
}
