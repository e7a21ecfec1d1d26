package bus_test

import (
	"errors"
	"io"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"godwit.dev/godwit/internal/messaging/bus"
	"godwit.dev/godwit/internal/messaging/bus/natstest"
	"godwit.dev/godwit/internal/messaging/topic"
	"godwit.dev/godwit/internal/server/certs/certstest"
	"godwit.dev/godwit/internal/testkit/eventually"
)

// When a bus has started, its first attempt to connect is over.
func TestExternalNATSWithTLSAndCredentials(t *testing.T) {
	n := natstest.Guard(t, true)
	stranger, known := filepath.Join(t.TempDir(), "stranger.creds"), filepath.Join(t.TempDir(), "known.creds")
	natstest.Credentials(t, stranger, natstest.NewAccount(t))
	natstest.Credentials(t, known, n.Account)
	strange, _, _ := certstest.Issue(t, t.TempDir(), "another")
	for name, c := range map[string]struct {
		with bus.External
		may  bool
	}{
		"both":                  {bus.External{URL: "tls://" + n.Addr, CA: n.CA, Credentials: known}, true},
		"the NATS asks for TLS": {bus.External{URL: "nats://" + n.Addr, CA: n.CA, Credentials: known}, true},
		"the system's CAs":      {bus.External{URL: "tls://" + n.Addr, Credentials: known}, false},
		"another's CA":          {bus.External{URL: "tls://" + n.Addr, CA: strange, Credentials: known}, false},
		"no credentials":        {bus.External{URL: "tls://" + n.Addr, CA: n.CA}, false},
		"another's credentials": {bus.External{URL: "tls://" + n.Addr, CA: n.CA, Credentials: stranger}, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := startWith(t, c.with)
			in, _ := subscribe(t, b, "a", "t.x", "")
			err := b.Publish(t.Context(), "a", topic.Message{Subject: "t.x"})
			if c.may && err != nil || !c.may && !errors.Is(err, topic.ErrUnavailable) {
				t.Fatalf("a publish: %v", err)
			}
			if c.may {
				in.next(t)
			}
		})
	}
}

func TestTLSIsNeverLeftOutIfAskedFor(t *testing.T) {
	s, _ := elsewhere(t, -1)
	b := startWith(t, bus.External{URL: "tls://" + s.Addr().String()})
	if err := b.Publish(t.Context(), "a", topic.Message{Subject: "t.x"}); !errors.Is(err, topic.ErrUnavailable) {
		t.Errorf("a publish to a NATS without TLS: %v", err)
	}
}

// Credentials expire and are replaced.
func TestCredentialsMayBeMendedLater(t *testing.T) {
	n := natstest.Guard(t, true)
	between := startBetween(t, n.Addr)
	file := filepath.Join(t.TempDir(), "nats.creds")
	natstest.Credentials(t, file, natstest.NewAccount(t))
	b := startWith(t, bus.External{URL: "tls://" + between.addr, CA: n.CA, Credentials: file})
	in, _ := subscribe(t, b, "a", "t.x", "")
	eventually.True(t, "refused several times", func() bool { return between.accepted.Load() > 3 })
	natstest.Credentials(t, file, n.Account)
	eventually.True(t, "connected", func() bool { return b.Publish(t.Context(), "a", topic.Message{Subject: "t.x"}) == nil })
	in.next(t)
}

// A suspended NATS keeps its connections open, and accepts new ones.
func TestExternalNATSThatIsSilentCountsAsGone(t *testing.T) {
	s, _ := elsewhere(t, -1)
	between := startBetween(t, s.Addr().String())
	external := bus.External{URL: "nats://" + between.addr}
	external.PingEvery(20 * time.Millisecond)
	b := startWith(t, external)
	in, _ := subscribe(t, b, "a", "t.x", "")
	silent, _ := subscribe(t, b, "a", "r.silent", "")
	publish(t, b, "a", "t.x", "")
	in.next(t)

	unavailable(t, b, silent, between.stand)
	before := between.accepted.Load()
	eventually.True(t, "connecting to what does not answer, and once more", func() bool { return between.accepted.Load() > before+1 })
	if err := b.Publish(t.Context(), "a", topic.Message{Subject: "t.x"}); !errors.Is(err, topic.ErrUnavailable) {
		t.Errorf("a publish while it connects: %v", err)
	}

	between.goOn()
	eventually.True(t, "connected again", func() bool { return b.Publish(t.Context(), "a", topic.Message{Subject: "t.x"}) == nil })
	in.next(t)
}

// between is a proxy between a bus and its NATS that can be paused.
type between struct {
	addr     string
	accepted atomic.Int64
	moving   sync.RWMutex // held while a piece is forwarded; locking it pauses the proxy
	still    bool
}

func startBetween(t *testing.T, to string) *between {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &between{addr: l.Addr().String()}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			b.accepted.Add(1)
			nats, err := net.Dial("tcp", to)
			if err != nil {
				client.Close()
				continue
			}
			wg.Go(func() { b.handOn(nats, client) })
			wg.Go(func() { b.handOn(client, nats) })
		}
	})
	t.Cleanup(func() { // runs after the bus has closed its connections
		b.goOn()
		l.Close()
		wg.Wait()
	})
	return b
}

// handOn forwards bytes until either connection ends, and then ends both.
func (b *between) handOn(to io.WriteCloser, from io.ReadCloser) {
	defer to.Close()
	defer from.Close()
	for piece := make([]byte, 32<<10); ; {
		n, err := from.Read(piece)
		if err != nil {
			return
		}
		b.moving.RLock()
		_, err = to.Write(piece[:n])
		b.moving.RUnlock()
		if err != nil {
			return
		}
	}
}

func (b *between) stand() {
	b.moving.Lock()
	b.still = true
}

func (b *between) goOn() {
	if b.still {
		b.still = false
		b.moving.Unlock()
	}
}
