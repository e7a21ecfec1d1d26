package attack

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/test/blackbox"
)

// TestSilentFloodKeepsNobodyOut: a stranger opens 1,000 connections a second that send nothing.
func TestSilentFloodKeepsNobodyOut(t *testing.T) {
	for name, of := range map[string]func(*blackbox.Server) string{
		"http": func(s *blackbox.Server) string { return s.HTTP }, "grpc": func(s *blackbox.Server) string { return s.GRPC },
	} {
		t.Run(name, func(t *testing.T) {
			server := blackbox.Start(t, blackbox.Dev(), blackbox.Plain(), blackbox.Args("--limit-loopback"))
			addr := of(server)
			before := descriptors(t, server.PID())
			alone := visits(t, server, name+"-alone", 60)
			var h held
			defer h.close()
			begun := time.Now()
			stop := h.flood(t.Context(), addr, 1000, nil)
			defer stop()
			// The burst of four seconds, plus 50 connections for each second since.
			most := func() int { return 200 + 50*(int(time.Since(begun).Seconds())+1) }
			blackbox.Eventually(t, "the flood runs", func() error { return atLeast(h.came(), most()+300) })
			beside := visits(t, server, name+"-beside", 60)
			n := descriptors(t, server.PID()) - before
			stop()
			let, came := most(), h.came()
			if n > let+50 {
				t.Errorf("the flood costs %d descriptors, and %d may come in", n, let)
			}
			blackbox.Eventually(t, "all others are refused", func() error {
				return atLeast(number(t, server, `godwit_connections_refused_total{reason="rate"}`), came-let)
			})
			blackbox.Eventually(t, "the stranger's others are closed", func() error { return atLeast(let, int(h.open.Load())) })
			t.Logf("p50 %s alone, %s beside; p99 %s alone, %s beside; %d tried, %d open",
				quantile(alone, 0.5), quantile(beside, 0.5), quantile(alone, 0.99), quantile(beside, 0.99), h.tried.Load(), h.open.Load())
		})
	}
}

// TestHeldConnectionsEnd opens connections in every way that makes no request, and keeps them as busy as possible.
func TestHeldConnectionsEnd(t *testing.T) {
	blackbox.Long(t)
	plain := blackbox.Start(t, blackbox.Dev(), blackbox.Plain())
	secure := startTLS(t)
	all := map[string]*held{}
	for name, c := range map[string]struct {
		to  string
		say func(c net.Conn)
	}{
		"HTTP, silent":                       {plain.HTTP, nil},
		"HTTP/1.1, a byte a second":          {plain.HTTP, drip(time.Second, request)},
		"HTTP/2 without a stream, pings":     {plain.HTTP, then(say(preface), pings)},
		"HTTP/2, headers a byte a second":    {plain.HTTP, then(say(preface+headless), drip(time.Second, "a"))},
		"WebSocket without hello":            {plain.HTTP, say(upgrade)},
		"WebSocket, a frame a byte a second": {plain.HTTP, then(say(upgrade+"\x81\xff\x00\x00\x00\x00\x00\x00\x10\x00"), drip(time.Second, "a"))},
		"HTTPS, silent":                      {secure.HTTP, nil},
		"HTTPS, handshake a byte a second":   {secure.HTTP, drip(time.Second, hello)},
		"HTTP over TLS: silent":              {secure.HTTP, overTLS(t, "http/1.1", func(net.Conn) {})},
		"HTTP over TLS: a byte a second":     {secure.HTTP, overTLS(t, "http/1.1", drip(time.Second, request))},
		"HTTP/2 over TLS: pings":             {secure.HTTP, overTLS(t, "h2", then(say(preface), pings))},
		"gRPC, silent":                       {plain.GRPC, nil},
		"gRPC, preface a byte a second":      {plain.GRPC, drip(time.Second, preface)},
		"gRPC without a stream":              {plain.GRPC, say(preface)},
		"gRPC without a stream, pings":       {plain.GRPC, then(say(preface), pings)},
		"gRPC, headers a byte a second":      {plain.GRPC, then(say(preface+headless), drip(time.Second, "a"))},
		"gRPC over TLS, handshake drips":     {secure.GRPC, drip(time.Second, hello)},
		"gRPC over TLS: pings":               {secure.GRPC, overTLS(t, "h2", then(say(preface), pings))},
	} {
		h := &held{secure: strings.Contains(name, "over TLS: ")}
		defer h.close()
		all[name] = h
		h.hold(t.Context(), c.to, c.say)
	}
	begun := time.Now()
	for name, h := range all {
		blackbox.Eventually(t, name, func() error {
			if h.open.Load() > 0 {
				return fmt.Errorf("open for %s", time.Since(begun).Round(time.Second))
			}
			return nil
		})
	}
	t.Logf("all %d were closed after %s", len(all), time.Since(begun).Round(100*time.Millisecond))
}

// TestOneAddressLeavesPlacesForOthers: a stranger sends valid requests and takes all places that the server grants.
func TestOneAddressLeavesPlacesForOthers(t *testing.T) {
	server := blackbox.Start(t, blackbox.Dev(), blackbox.Plain(),
		blackbox.Args("--limit-loopback", "--limit-connects", "off", "--max-connections", "300"))
	var h held
	defer h.close()
	for i := range 400 {
		h.hold(t.Context(), []string{server.HTTP, server.GRPC}[i%2], say("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"))
	}
	blackbox.Eventually(t, "the stranger has his share", func() error {
		if n := h.open.Load(); n > 75+8 { // a few more are open while they are told why they are refused
			return fmt.Errorf("he has %d connections", n)
		}
		return nil
	})
	visits(t, server, "beside", 20)
	link, err := server.Dial(t.Context(), "grpc", blackbox.Hello{App: "demo", Recipient: "driver-2"})
	if err != nil {
		t.Fatal(err)
	}
	defer link.Cut()
	if f, err := link.Next(t.Context()); err != nil || f.Welcome == nil {
		t.Errorf("a client beside him gets %+v, %v", f, err)
	}
	if n := metric(t, server, `godwit_connections_refused_total{reason="address"}`); n == "0" {
		t.Error("nothing was refused")
	}
}

// TestStrangersTakeNoDescriptorsOfTheStores opens more connections than there are descriptors, also if the limits allow more.
func TestStrangersTakeNoDescriptorsOfTheStores(t *testing.T) {
	for name, more := range map[string][]string{"by default": nil, "more allowed": {"--max-connections", "1000"}} {
		t.Run(name, func(t *testing.T) { takeDescriptors(t, more) })
	}
}

func takeDescriptors(t *testing.T, more []string) {
	t.Helper()
	const files, tried = 230, 430                                                          // the reserve is less than three quarters of the files
	server := blackbox.Start(t, blackbox.Dev(), limited(t, files), blackbox.Args(more...)) // loopback is exempt from limits: all places can be taken
	api := server.API()
	for i := range 3 { // on a connection that was opened before
		if err := api.Publish(t.Context(), map[string]any{"to": "driver-1", "id": fmt.Sprint("before-", i), "title": "x"}); err != nil {
			t.Fatal(err)
		}
	}
	var h held
	defer h.close()
	for i := range tried {
		h.hold(t.Context(), []string{server.HTTP, server.GRPC}[i%2], nil)
	}
	blackbox.Eventually(t, "those that are too many are closed", func() error {
		if n := h.open.Load(); n > files-reserved+8 { // a few more are open while they are told why they are refused
			return fmt.Errorf("%d are open", n)
		}
		return nil
	})
	for i := range 50 {
		if err := api.Publish(t.Context(), map[string]any{"to": fmt.Sprint("driver-", i), "id": fmt.Sprint("beside-", i), "title": "x"}); err != nil {
			t.Fatal(err)
		}
	}
	if n := descriptors(t, server.PID()); n > files-20 {
		t.Errorf("%d of %d descriptors are taken", n, files)
	}
	closed := 0
	for _, why := range []string{"full", "files"} {
		closed += numberOf(t, api, `godwit_connections_refused_total{reason="`+why+`"}`)
	}
	if closed < tried-(files-reserved) {
		t.Errorf("%d are counted as refused", closed)
	}
	if a, err := api.Do(t.Context(), http.MethodGet, "/readyz", nil); err != nil || a.Status != http.StatusOK {
		t.Errorf("/readyz: %+v, %v", a, err)
	}
	h.close()
	blackbox.Eventually(t, "a visit after it", func() error {
		_, err := visit(t.Context(), server, "after")
		return err
	})
}

// reserved is how many descriptors the server never uses for connections.
const reserved = 160

// TestRefusedClientsAreTold: a client that is slightly too fast is told when to retry.
func TestRefusedClientsAreTold(t *testing.T) {
	server := blackbox.Start(t, blackbox.Dev(), blackbox.Plain(), blackbox.Args("--limit-loopback", "--limit-connects", "1/m"))
	for range 200 {
		c, err := dialFrom(t.Context(), stranger, server.HTTP)
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(blackbox.Patience))
		if _, err := io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(c)
		c.Close()
		switch text := string(b); {
		case err != nil:
			t.Fatal(err)
		case len(text) > 12 && text[9:12] == "200":
		case len(text) > 12 && text[9:12] == "429":
			return
		default:
			t.Fatalf("answered %q", text)
		}
	}
	t.Error("nobody was refused")
}
