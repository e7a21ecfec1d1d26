package cluster

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"godwit.dev/godwit/test/blackbox"
)

// How the balancer looks which nodes are ready, and how long it tries one that does not take a connection.
const (
	lookEvery    = 100 * time.Millisecond
	lookPatience = time.Second
	dialPatience = time.Second
)

// balancer hands connections to the nodes that are ready, in turn.
type balancer struct {
	nodes []*blackbox.Server
	ready []atomic.Bool
	turn  atomic.Uint64
	look  *http.Client
}

// front starts a balancer before nodes that are ready.
func front(t testing.TB, nodes []*blackbox.Server) *blackbox.Server {
	t.Helper()
	b := &balancer{nodes: nodes, ready: make([]atomic.Bool, len(nodes))}
	b.look = &http.Client{Timeout: lookPatience, Transport: &http.Transport{DisableKeepAlives: true}}
	ctx, stop := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	t.Cleanup(func() { stop(); watching.Wait() })
	for i := range nodes {
		b.ready[i].Store(true)
		watching.Go(func() { b.watch(ctx, i) })
	}
	pass := func() {}
	var http, grpc relay
	http.serve(t, "127.0.0.1:0", func() (net.Conn, error) { return b.dial(func(s *blackbox.Server) string { return s.HTTP }) }, pass)
	grpc.serve(t, "127.0.0.1:0", func() (net.Conn, error) { return b.dial(func(s *blackbox.Server) string { return s.GRPC }) }, pass)
	return blackbox.At(t, http.Addr(), grpc.Addr())
}

// watch looks again and again whether a node is ready.
func (b *balancer) watch(ctx context.Context, i int) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, b.nodes[i].URL("/readyz"), nil)
		if err != nil {
			return
		}
		resp, err := b.look.Do(req)
		if err == nil {
			resp.Body.Close()
		}
		b.ready[i].Store(err == nil && resp.StatusCode == http.StatusOK)
	}
}

var errNoneReady = errors.New("no node is ready")

// dial connects to the next node that is ready and takes connections.
func (b *balancer) dial(addr func(*blackbox.Server) string) (net.Conn, error) {
	first := b.turn.Add(1)
	err := errNoneReady
	for k := range b.nodes {
		i := (int(first) + k) % len(b.nodes)
		if !b.ready[i].Load() {
			continue
		}
		var conn net.Conn
		if conn, err = net.DialTimeout("tcp", addr(b.nodes[i]), dialPatience); err == nil {
			return conn, nil
		}
		b.ready[i].Store(false) // until it is looked at again
	}
	return nil, err
}
