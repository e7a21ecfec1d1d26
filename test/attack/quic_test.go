package attack

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"godwit.dev/godwit/bench/quicflood"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	godwit "godwit.dev/godwit/clients/go"
	"godwit.dev/godwit/clients/go/quic"
	"godwit.dev/godwit/internal/server/certs/certstest"
	"godwit.dev/godwit/test/blackbox"
)

// The flood of the test. The server lets 100 handshakes a second begin without a proof of the address.
const (
	floodPackets = 20_000
	floodPorts   = 500
	floodPace    = 5_000 // packets a second

	// floodMemory is the most by which the server may grow: 1,024 handshakes of 60 KiB, and as much again until the collector runs.
	floodMemory = 120 // MB
)

// quicFlooder is the attacker's process. Each line on its input is an address to flood, or empty; it then writes what it has sent so far.
func quicFlooder() {
	f := new(quicflood.Flood)
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		if to := in.Text(); to != "" {
			var err error
			if f, err = quicflood.New(context.Background(), quicflood.Config{Addr: to, Sources: floodPorts, Packets: floodPackets, Rate: floodPace}); err == nil {
				err = f.Run(context.Background())
			}
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
		}
		_ = json.NewEncoder(os.Stdout).Encode(f.Sent())
	}
}

// flooded asks the attacker for its counts after it has flooded to; empty: at once.
func (c *child) flooded(to string) (s quicflood.Sent) {
	if _, err := fmt.Fprintln(c.in, to); err != nil {
		c.t.Error(err)
	}
	if err := json.Unmarshal([]byte(c.line()), &s); err != nil {
		c.t.Error(err)
	}
	return s
}

// quicWorld is a server with QUIC, and what is needed to talk to it.
type quicWorld struct {
	*blackbox.Server
	at    blackbox.Addresses
	roots *x509.CertPool
	api   *blackbox.API
}

func startQUIC(t *testing.T) *quicWorld {
	t.Helper()
	cert, key, pool := certstest.Issue(t, t.TempDir(), "flooded")
	w := &quicWorld{roots: pool, Server: blackbox.New(t, blackbox.Dev(), blackbox.Plain(), blackbox.Args("--quic-addr", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key))}
	if err := w.Spawn(); err != nil {
		t.Fatal(err)
	}
	w.api = &blackbox.API{Key: "dev", HTTP: &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}}
	t.Cleanup(w.api.HTTP.CloseIdleConnections)
	blackbox.Eventually(t, "the server is ready", func() (err error) {
		if w.at, err = w.Addresses(); err != nil {
			return err
		}
		w.api.Base = "https://" + w.at.HTTP
		return w.api.Try(t.Context(), http.MethodGet, "/readyz", nil, nil)
	})
	return w
}

// receiver is a client that notes what it gets.
type receiver struct {
	mu  sync.Mutex
	got map[string]int
}

// listen connects a client and waits until it is welcomed.
func (w *quicWorld) listen(t *testing.T, recipient, url string, options ...godwit.Option) *receiver {
	t.Helper()
	c, err := godwit.New(url, append(options, godwit.WithRootCAs(w.roots), godwit.WithApp("demo"))...)
	if err != nil {
		t.Fatal(err)
	}
	r := &receiver{got: make(map[string]int)}
	ctx, cancel := context.WithCancel(t.Context())
	welcomed := make(chan struct{}, 1000)
	var running sync.WaitGroup
	running.Go(func() {
		_ = c.Listen(ctx, recipient, func(_ context.Context, n *godwit.Notification) error {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.got[n.ID]++
			return nil
		}, godwit.OnConnect(func(godwit.Welcome) { welcomed <- struct{}{} }))
	})
	t.Cleanup(func() { cancel(); running.Wait(); c.Close() })
	select {
	case <-welcomed:
	case <-time.After(blackbox.Patience):
		t.Fatalf("%s was not welcomed", recipient)
	}
	return r
}

// lacks reports whether notifications are missing, or came more than once.
func (r *receiver) lacks(want map[string]int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !maps.Equal(r.got, want) {
		return fmt.Errorf("%d notifications came of %d, or some came again", len(r.got), len(want))
	}
	return nil
}

// TestFloodOfHandshakesDisturbsNobody floods the UDP port with handshakes that nobody completes, and with nonsense, while clients over WebSocket,
// gRPC and QUIC get notifications.
func TestFloodOfHandshakesDisturbsNobody(t *testing.T) {
	blackbox.Long(t)
	w := startQUIC(t)
	all := map[string]*receiver{
		"ws":   w.listen(t, "ws", "https://"+w.at.HTTP),
		"grpc": w.listen(t, "grpc", "https://"+w.at.HTTP, godwit.WithGRPC(w.at.GRPC, grpc.WithTransportCredentials(credentials.NewClientTLSFromCert(w.roots, "")))),
		"quic": w.listen(t, "quic", "quic://"+w.at.QUIC, quic.Enable()),
	}
	before := peakMemory(t, w.PID())
	flood := startChild(t, "quic")
	flooded := make(chan quicflood.Sent, 1)
	go func() { flooded <- flood.flooded(w.at.QUIC) }()
	want := map[string]int{}
	for during := true; during; {
		select {
		case <-flooded:
			during = false
		default:
		}
		id := fmt.Sprintf("n-%d", len(want))
		for to := range all {
			if err := w.api.Publish(t.Context(), map[string]any{"to": to, "id": id, "title": "Ride"}); err != nil {
				t.Fatalf("publish to %s beside the flood: %v", to, err)
			}
		}
		want[id] = 1
	}
	for to, r := range all {
		blackbox.Eventually(t, "all notifications over "+to, func() error { return r.lacks(want) })
	}
	retries, unfinished := numberOf(t, w.api, "godwit_quic_retries_total"), 0
	blackbox.Eventually(t, "the server gives handshakes up", func() error {
		unfinished = numberOf(t, w.api, `godwit_quic_refused_total{reason="unfinished"}`)
		return atLeast(unfinished, 1)
	})
	if retries < 1000 {
		t.Errorf("%d proofs of an address were demanded of %d packets", retries, floodPackets)
	}
	sessions := numberOf(t, w.api, "godwit_quic_sessions_total")
	w.listen(t, "after", "quic://"+w.at.QUIC, quic.Enable())
	if n := numberOf(t, w.api, "godwit_quic_sessions_total"); n != sessions+1 {
		t.Error("after the flood QUIC serves nobody")
	}
	sent := flood.flooded("")
	if sent.Returned > 3*sent.Bytes || sent.Worst > 3 || sent.Retries == 0 || sent.Begun == 0 || sent.Versions == 0 {
		t.Errorf("the flood got %+v, want answers of all kinds, and at most three bytes for one", sent)
	}
	grown := peakMemory(t, w.PID()) - before
	if grown > floodMemory {
		t.Errorf("the server grew by %d MB, at most %d are right", grown, floodMemory)
	}
	t.Logf("%d notifications for each client beside %+v; %d retries, %d handshakes given up, %d MB more", len(want), sent, retries, unfinished, grown)
}
