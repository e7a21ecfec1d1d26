// Package natstest starts NATS servers for tests of code that uses an external NATS instead of the server within the
// process.
package natstest

import (
	"crypto/tls"
	"os"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"godwit.dev/godwit/internal/server/certs/certstest"
)

// patience limits how long a server may take to start. Normally that takes milliseconds.
const patience = time.Minute

// Start starts a NATS server on loopback that ends with the test. Port -1 means any port.
func Start(t testing.TB, o *server.Options) *server.Server {
	t.Helper()
	o.Host, o.NoSigs, o.NoLog = "127.0.0.1", true, true
	s, err := server.NewServer(o)
	must(t, err)
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(patience) {
		t.Fatal("NATS did not start")
	}
	return s
}

// Guarded is a NATS server that accepts only users of its account.
type Guarded struct {
	Addr    string
	Server  *server.Server
	CA      string // path of the authorities' file; empty: the server has no TLS
	Account nkeys.KeyPair
}

// Guard starts one. Its account may use JetStream, if the options that change sets say so.
func Guard(t testing.TB, secure bool, change ...func(*server.Options)) *Guarded {
	t.Helper()
	operator, account, system := pair(t, nkeys.CreateOperator), NewAccount(t), NewAccount(t)
	accounts := &server.MemAccResolver{}
	for _, one := range []nkeys.KeyPair{account, system} {
		claims := jwt.NewAccountClaims(public(t, one))
		if one == account {
			claims.Limits.JetStreamLimits = jwt.JetStreamLimits{MemoryStorage: jwt.NoLimit, DiskStorage: jwt.NoLimit, Streams: jwt.NoLimit, Consumer: jwt.NoLimit}
		}
		text, err := claims.Encode(operator)
		must(t, err)
		must(t, accounts.Store(public(t, one), text))
	}
	o := &server.Options{Port: -1, TrustedKeys: []string{public(t, operator)}, AccountResolver: accounts, SystemAccount: public(t, system)}
	g := &Guarded{Account: account}
	if secure {
		cert, key, _ := certstest.Issue(t, t.TempDir(), "nats")
		own, err := tls.LoadX509KeyPair(cert, key)
		must(t, err)
		g.CA = cert
		o.TLS, o.TLSTimeout, o.TLSConfig = true, 10, &tls.Config{Certificates: []tls.Certificate{own}, MinVersion: tls.VersionTLS13}
	}
	for _, one := range change {
		one(o)
	}
	g.Server = Start(t, o)
	g.Addr = g.Server.Addr().String()
	return g
}

// Credentials writes a file with the credentials of an account's user, who may publish and subscribe only to the given subjects, or to all
// if none are given. It returns the user's seed, which no output may contain.
func Credentials(t testing.TB, file string, account nkeys.KeyPair, only ...string) (secret string) {
	t.Helper()
	user := pair(t, nkeys.CreateUser)
	claims := jwt.NewUserClaims(public(t, user))
	claims.Pub.Allow, claims.Sub.Allow = only, only
	token, err := claims.Encode(account)
	must(t, err)
	seed, err := user.Seed()
	must(t, err)
	text, err := jwt.FormatUserConfig(token, seed)
	must(t, err)
	must(t, os.WriteFile(file, text, 0o600))
	return string(seed)
}

// NewAccount makes the keys of an account.
func NewAccount(t testing.TB) nkeys.KeyPair {
	t.Helper()
	return pair(t, nkeys.CreateAccount)
}

func pair(t testing.TB, create func() (nkeys.KeyPair, error)) nkeys.KeyPair {
	t.Helper()
	k, err := create()
	must(t, err)
	return k
}

func public(t testing.TB, k nkeys.KeyPair) string {
	t.Helper()
	text, err := k.PublicKey()
	must(t, err)
	return text
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
