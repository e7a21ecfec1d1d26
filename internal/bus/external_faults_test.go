package bus_test

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"godwit.dev/godwit/internal/bus"
	"godwit.dev/godwit/internal/certs/certstest"
	"godwit.dev/godwit/internal/topic"
)

// guarded is a NATS that takes none but users of its account, over TLS.
type guarded struct {
	addr, ca string
	account  nkeys.KeyPair
}

func startGuarded(t *testing.T) *guarded {
	t.Helper()
	cert, key, _ := certstest.Issue(t, t.TempDir(), "nats")
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	operator, account := keyPair(t, nkeys.CreateOperator), keyPair(t, nkeys.CreateAccount)
	accounts := &server.MemAccResolver{}
	claims, err := jwt.NewAccountClaims(public(t, account)).Encode(operator)
	if err == nil {
		err = accounts.Store(public(t, account), claims)
	}
	if err != nil {
		t.Fatal(err)
	}
	s := run(t, &server.Options{
		Port: -1, TLS: true, TLSTimeout: 10, TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13},
		TrustedKeys: []string{public(t, operator)}, AccountResolver: accounts,
	})
	return &guarded{addr: s.Addr().String(), ca: cert, account: account}
}

// credentials writes the file of a user of an account.
func credentials(t *testing.T, file string, account nkeys.KeyPair) {
	t.Helper()
	user := keyPair(t, nkeys.CreateUser)
	claims, err := jwt.NewUserClaims(public(t, user)).Encode(account)
	if err != nil {
		t.Fatal(err)
	}
	seed, err := user.Seed()
	if err != nil {
		t.Fatal(err)
	}
	text, err := jwt.FormatUserConfig(claims, seed)
	if err == nil {
		err = os.WriteFile(file, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func keyPair(t *testing.T, create func() (nkeys.KeyPair, error)) nkeys.KeyPair {
	t.Helper()
	k, err := create()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func public(t *testing.T, k nkeys.KeyPair) string {
	t.Helper()
	text, err := k.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// The first attempt to connect is over when a bus has started.
func TestExternalNATSWithTLSAndCredentials(t *testing.T) {
	n := startGuarded(t)
	stranger, known := filepath.Join(t.TempDir(), "stranger.creds"), filepath.Join(t.TempDir(), "known.creds")
	credentials(t, stranger, keyPair(t, nkeys.CreateAccount))
	credentials(t, known, n.account)
	strange, _, _ := certstest.Issue(t, t.TempDir(), "another")
	for name, c := range map[string]struct {
		with bus.External
		may  bool
	}{
		"both":                  {bus.External{URL: "tls://" + n.addr, CA: n.ca, Credentials: known}, true},
		"the NATS asks for TLS": {bus.External{URL: "nats://" + n.addr, CA: n.ca, Credentials: known}, true},
		"the system's CAs":      {bus.External{URL: "tls://" + n.addr, Credentials: known}, false},
		"another's CA":          {bus.External{URL: "tls://" + n.addr, CA: strange, Credentials: known}, false},
		"no credentials":        {bus.External{URL: "tls://" + n.addr, CA: n.ca}, false},
		"another's credentials": {bus.External{URL: "tls://" + n.addr, CA: n.ca, Credentials: stranger}, false},
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

// Credentials run out and are written anew.
func TestCredentialsMayBeMendedLater(t *testing.T) {
	n := startGuarded(t)
	between := startBetween(t, n.addr)
	file := filepath.Join(t.TempDir(), "nats.creds")
	credentials(t, file, keyPair(t, nkeys.CreateAccount))
	b := startWith(t, bus.External{URL: "tls://" + between.addr, CA: n.ca, Credentials: file})
	in, _ := subscribe(t, b, "a", "t.x", "")
	eventually(t, "refused several times", func() bool { return between.accepted.Load() > 3 })
	credentials(t, file, n.account)
	eventually(t, "connected", func() bool { return b.Publish(t.Context(), "a", topic.Message{Subject: "t.x"}) == nil })
	in.next(t)
}

// A NATS whose process stands still keeps its connections open, and new ones are made.
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
	eventually(t, "connecting to what does not answer, and once more", func() bool { return between.accepted.Load() > before+1 })
	if err := b.Publish(t.Context(), "a", topic.Message{Subject: "t.x"}); !errors.Is(err, topic.ErrUnavailable) {
		t.Errorf("a publish while it connects: %v", err)
	}

	between.goOn()
	eventually(t, "connected again", func() bool { return b.Publish(t.Context(), "a", topic.Message{Subject: "t.x"}) == nil })
	in.next(t)
}

// between stands between a bus and its NATS, and may stand still.
type between struct {
	addr     string
	accepted atomic.Int64
	moving   sync.RWMutex // held for each piece that is handed on; whoever has it makes all stand still
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
	t.Cleanup(func() { // after the bus has closed its connections
		b.goOn()
		l.Close()
		wg.Wait()
	})
	return b
}

// handOn ends with either connection, and ends both.
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
