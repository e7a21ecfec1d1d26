package grpcgate_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"

	"godwit.dev/godwit/internal/feeds/event"
	"godwit.dev/godwit/internal/gateway/gatetest"
	"godwit.dev/godwit/internal/objects/object"
)

// counted counts the bytes that a client reads from its connection.
type counted struct {
	net.Conn
	n *atomic.Int64
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// A unit that was away during ten thousand versions has a bad link: on return three objects cost it three frames.
func TestReturnAfterManyVersionsCostsThreeSmallFrames(t *testing.T) {
	const versions, most = 10_000, 400
	names := []string{"camera-config", "firmware", "schedule"}
	var g *gate
	s := gatetest.Start(t, func(s *gatetest.Server) { g = open(t, s, nil, nil) })
	var read atomic.Int64
	g.dial = append(g.dial, grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
		var d net.Dialer
		c, err := d.DialContext(ctx, "tcp", addr)
		return counted{c, &read}, err
	}))
	o := gatetest.Options{Recipient: "region-1:observer-1", Group: gatetest.Group, Device: "main"}
	unit := func() gatetest.Client {
		c, err := connect(t, g, o)
		if err != nil {
			t.Fatal(err)
		}
		want(t, c, "welcome")
		return c
	}
	c := unit()
	if err := c.Send(t.Context(), fmt.Sprintf(`{"register":{"objects":[%q,%q,%q]}}`, names[0], names[1], names[2])); err != nil {
		t.Fatal(err)
	}
	want(t, c, "registered")
	for range names {
		want(t, c, "object")
	}
	c.Close()
	s.Await(t, event.Offline, "")

	var wg sync.WaitGroup
	var next atomic.Int64
	for range 64 {
		wg.Go(func() {
			for v := next.Add(1); v <= versions; v = next.Add(1) {
				k := object.Key{Group: gatetest.Group, Object: names[v%3]}
				if _, _, err := s.Objects.Put(context.Background(), gatetest.App, k, &object.Put{Version: object.Version(v)}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()

	// Objects may arrive in the same read as the welcome, so their cost is the difference to a read without objects.
	o.Recipient = "region-1:observer-0"
	before := read.Load()
	c = unit()
	ping(t, c)
	without := read.Load() - before
	o.Recipient = "region-1:observer-1"
	before = read.Load()
	c = unit()
	got := map[string]string{}
	for range names {
		f := want(t, c, "object")
		got[f.Object] = f.Version
		if err := c.Send(t.Context(), fmt.Sprintf(`{"object_ack":{"object":%q,"version":%q}}`, f.Object, f.Version)); err != nil {
			t.Fatal(err)
		}
	}
	ping(t, c) // so there was no fourth
	for i, name := range names {
		if v := got[name]; v != fmt.Sprint(versions-(versions-i)%3) {
			t.Errorf("%s is at %s", name, v)
		}
	}
	if n := read.Load() - before - without; n >= most || n < 3*int64(len("region-1")) {
		t.Errorf("three objects cost %d bytes, want less than %d", n, most)
	}
}

func ping(t *testing.T, c gatetest.Client) {
	t.Helper()
	if err := c.Send(t.Context(), `{"ping":{}}`); err != nil {
		t.Fatal(err)
	}
	want(t, c, "pong")
}

// want reads the next frame and checks its name.
func want(t *testing.T, c gatetest.Client, name string) gatetest.Frame {
	t.Helper()
	f, err := gatetest.Next(t, c)
	if err != nil || f.Name != name {
		t.Fatalf("got %+v, %v; want %s", f, err, name)
	}
	return f
}
