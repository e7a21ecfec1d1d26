package attack

import (
	"crypto/tls"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/test/blackbox"
)

var ratio = flag.Bool("ratio", false, "measure how much longer others wait beside each flood, and fail above twice")

// The test compares consecutive windows of one run, alternately with the server attacked and with the attacker just as busy elsewhere, so
// that other work of the machine slows both. The first moments of a window belong to the previous one. On an overloaded machine results
// still vary, so a ratio that is too large is measured again: a server that makes others wait does so every time.
const (
	floodRate   = 1000 // connections a second
	windowPairs = 7
	rounds      = 3
	windowFor   = time.Second
	settleFor   = 200 * time.Millisecond
	mostRatio   = 2.0
)

// flood is a way to open connections that request nothing.
type flood struct {
	secure, grpc bool // which listener
	say          func(c net.Conn)
}

var floods = map[string]flood{
	"HTTP, silent":                     {},
	"HTTP, a byte a second":            {say: drip(time.Second, request)},
	"gRPC, silent":                     {grpc: true},
	"gRPC without a stream":            {grpc: true, say: say(preface)},
	"gRPC, headers a byte a second":    {grpc: true, say: then(say(preface+headless), drip(time.Second, "a"))},
	"HTTPS, handshake a byte a second": {secure: true, say: drip(time.Second, hello)},
	"gRPC over TLS, silent":            {secure: true, grpc: true},
}

// TestOthersWaitNoLongerBesideAFlood measures how long clients from other addresses wait until they are accepted, and until they have
// published.
func TestOthersWaitNoLongerBesideAFlood(t *testing.T) {
	if !*ratio {
		t.Skip("measured by make attack")
	}
	sink := startChild(t, "sink").line()
	for name, f := range floods {
		t.Run(name, func(t *testing.T) {
			var server *blackbox.Server
			if options := []blackbox.Option{blackbox.In(inMemory(t)), blackbox.Args("--limit-loopback")}; f.secure {
				server = startTLS(t, options...)
			} else {
				server = blackbox.Start(t, append(options, blackbox.Dev(), blackbox.Plain())...)
			}
			to := server.HTTP
			if f.grpc {
				to = server.GRPC
			}
			others := &others{t: t, flood: f, server: server}
			bad := startChild(t, name)
			bad.attack("") // answers once it is there
			for range rounds {
				accept, publish, rate := others.measure(bad, to, sink)
				t.Logf("%.0f connections/s; others' p99 beside the flood and without it: %s to be let in, %s to publish", rate, accept, publish)
				if accept.ratio() <= mostRatio && publish.ratio() <= mostRatio {
					return
				}
			}
			t.Errorf("others wait more than %v times as long", mostRatio)
		})
	}
}

// measure measures the windows, and returns the flood's rate in connections a second.
func (o *others) measure(bad *child, server, sink string) (accept, publish pairs, rate float64) {
	o.t.Helper()
	attempts := 0
	var under time.Duration
	for i := range windowPairs {
		for _, on := range []bool{i%2 == 0, i%2 != 0} {
			target := sink
			if on {
				target = server
			}
			at := time.Now()
			bad.attack(target)
			o.visit(settleFor)
			accepts, publishes := o.visit(windowFor)
			accept.add(on, accepts)
			publish.add(on, publishes)
			if n := bad.attack(""); on {
				attempts += n
				under += time.Since(at)
			}
		}
	}
	return accept, publish, float64(attempts) / under.Seconds()
}

// pairs are the 99th percentiles of windows with and without the attack.
type pairs struct{ with, without []time.Duration }

func (p *pairs) add(on bool, took []time.Duration) {
	slices.Sort(took)
	if p99 := quantile(took, 0.99); on {
		p.with = append(p.with, p99)
	} else {
		p.without = append(p.without, p99)
	}
}

// ratio returns the median ratio of the pairs.
func (p pairs) ratio() float64 {
	var all []float64
	for i := range p.with {
		all = append(all, float64(p.with[i])/float64(p.without[i]))
	}
	slices.Sort(all)
	return all[len(all)/2]
}

func (p pairs) String() string {
	median := func(of []time.Duration) time.Duration { return quantile(slices.Sorted(slices.Values(of)), 0.5) }
	return fmt.Sprintf("%.2f × (%s, %s)", p.ratio(), median(p.with).Round(time.Microsecond), median(p.without).Round(time.Microsecond))
}

// others are clients at many addresses; each address is used once.
type others struct {
	t      *testing.T
	flood  flood
	server *blackbox.Server
	n      int
}

// visit runs one client after the other for a while, and returns how long each waited.
func (o *others) visit(d time.Duration) (accepts, publishes []time.Duration) {
	o.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); o.n++ {
		begun := time.Now()
		o.accept()
		let := time.Now()
		o.publish()
		accepts, publishes = append(accepts, let.Sub(begun)), append(publishes, time.Since(let))
	}
	return accepts, publishes
}

// accept connects to the attacked listener and waits for its first answer.
func (o *others) accept() {
	o.t.Helper()
	if o.flood.grpc {
		if b := o.exchange(o.server.GRPC, "h2", preface, 9); b[3] != 4 { // SETTINGS
			o.t.Fatalf("HTTP/2 begins with %q", b)
		}
		return
	}
	o.http("GET /healthz", "", 200)
}

func (o *others) publish() {
	o.t.Helper()
	o.http("POST /v1/notifications", fmt.Sprintf(`{"to":"driver-%d","id":"%d","title":"hello"}`, o.n%1000, o.n), 201)
}

func (o *others) http(what, body string, status int) {
	o.t.Helper()
	text := fmt.Sprintf("%s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer dev\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", what, len(body), body)
	want := fmt.Sprintf("HTTP/1.1 %d", status)
	if b := o.exchange(o.server.HTTP, "http/1.1", text, len(want)); string(b) != want {
		o.t.Fatalf("%s is answered %q", what, b)
	}
}

// exchange connects from an address of its own, sends a text and returns the first bytes of the answer.
func (o *others) exchange(addr, proto, text string, n int) []byte {
	o.t.Helper()
	c, err := dialFrom(o.t.Context(), fmt.Sprintf("127.1.%d.%d", o.n/250%250+1, o.n%250+1), addr)
	if err != nil {
		o.t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if o.flood.secure {
		c = tls.Client(c, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{proto}})
	}
	b := make([]byte, n)
	_ = c.SetDeadline(time.Now().Add(blackbox.Patience))
	if _, err = io.WriteString(c, text); err == nil {
		_, err = io.ReadFull(c, b)
	}
	if err != nil {
		o.t.Fatalf("visit %d of %s: %v", o.n, strings.Fields(text)[0], err)
	}
	return b
}

// inMemory returns a folder in memory, so that no disk slows the server, if there is one.
func inMemory(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "godwit-attack-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
