package h2post

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/test/bufconn"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// peer is the server's side of a connection; a test scripts its frames.
type peer struct {
	t  *testing.T
	nc net.Conn
	fr *http2.Framer
	n  int // number of the connection, from 1
	// fields of the answers' heads
	block bytes.Buffer
	enc   *hpack.Encoder
}

// asked is a message as the server received it.
type asked struct {
	id     uint32
	fields map[string]string
	body   []byte
}

// certificate is for 127.0.0.1; the pool makes clients trust it.
var certificate = sync.OnceValues(func() (tls.Certificate, *x509.CertPool) {
	s := httptest.NewTLSServer(http.NotFoundHandler())
	defer s.Close()
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	return s.TLS.Certificates[0], pool
})

// client makes a client that trusts the certificate.
func client(t *testing.T, change ...func(*Config)) *Client {
	t.Helper()
	_, pool := certificate()
	var d net.Dialer
	cfg := Config{
		Dial: d.DialContext, TLS: func() *tls.Config { return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12} },
		Timeout: patience, Silence: patience, Idle: time.Hour,
	}
	for _, f := range change {
		f(&cfg)
	}
	c := New(cfg)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// script starts a server whose connections are handled by serve. A connection ends when serve returns.
func script(t *testing.T, serve func(*peer)) (address string) {
	t.Helper()
	cert, _ := certificate()
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	t.Cleanup(wg.Wait)
	t.Cleanup(func() { l.Close() })
	wg.Go(func() { accept(t, l, serve) })
	return l.Addr().String()
}

// accept serves connections until the listener is closed, and returns when they have ended.
func accept(t *testing.T, l net.Listener, serve func(*peer)) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for n := 1; ; n++ {
		nc, err := l.Accept()
		if err != nil {
			return
		}
		wg.Go(func() {
			defer nc.Close()
			p := &peer{t: t, nc: nc, n: n, fr: http2.NewFramer(nc, nc)}
			p.fr.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
			p.enc = hpack.NewEncoder(&p.block)
			serve(p)
		})
	}
}

// inBubble runs a test in a synctest bubble, with a client whose in-memory connections are served by serve: the test waits on virtual time
// only, never on a real network.
func inBubble(t *testing.T, serve func(*peer), change func(*Config), test func(t *testing.T, c *Client)) {
	t.Helper()
	cert, _ := certificate() // made outside
	synctest.Test(t, func(t *testing.T) {
		l := bufconn.Listen(64 << 10)
		var wg sync.WaitGroup
		t.Cleanup(wg.Wait)
		t.Cleanup(func() { l.Close() })
		wg.Go(func() {
			accept(t, tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12}), serve)
		})
		test(t, client(t, change, func(c *Config) {
			c.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) { return l.DialContext(ctx) }
		}))
	})
}

// greet sends the server's first frames and reads the client's.
func (p *peer) greet(settings ...http2.Setting) {
	if err := p.fr.WriteSettings(settings...); err != nil {
		p.t.Error(err)
	}
	preface := make([]byte, len(http2.ClientPreface))
	if _, err := io.ReadFull(p.nc, preface); err != nil || string(preface) != http2.ClientPreface {
		p.t.Errorf("the client begins with %q (%v)", preface, err)
	}
}

// next reads frames until a whole message has arrived; nil: the client has closed. Other frames are passed to see, which may be nil.
func (p *peer) next(see func(http2.Frame)) *asked {
	open := make(map[uint32]*asked)
	for {
		f, err := p.fr.ReadFrame()
		if err != nil {
			return nil
		}
		switch f := f.(type) {
		case *http2.MetaHeadersFrame:
			a := &asked{id: f.StreamID, fields: make(map[string]string)}
			for _, field := range f.Fields {
				a.fields[field.Name] = field.Value
			}
			open[a.id] = a
			if f.StreamEnded() {
				return a
			}
		case *http2.DataFrame:
			a := open[f.StreamID]
			a.body = append(a.body, f.Data()...)
			if f.StreamEnded() {
				return a
			}
		default:
			if see != nil {
				see(f)
			}
		}
	}
}

// head writes an answer's head.
func (p *peer) head(id uint32, end bool, fields ...string) {
	p.block.Reset()
	for i := 0; i < len(fields); i += 2 {
		if err := p.enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}); err != nil {
			p.t.Error(err)
		}
	}
	p.check(p.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: p.block.Bytes(), EndHeaders: true, EndStream: end}))
}

// check ends serve if the client has closed the connection.
func (p *peer) check(err error) {
	var gone *net.OpError
	if err != nil && !errors.As(err, &gone) {
		p.t.Error(err)
	}
}

func (p *peer) answer(id uint32, status int) { p.head(id, true, ":status", strconv.Itoa(status)) }

func message(address, body string) *Request {
	return &Request{
		Address: address, Authority: address, Path: "/push/1", Body: []byte(body),
		Header: []hpack.HeaderField{{Name: "ttl", Value: "60"}, {Name: "topic", Value: body, Sensitive: true}},
	}
}

// patience limits a test's wait for an event that is certain to come.
const patience = 2 * time.Minute

// post demands an answer.
func post(t *testing.T, c *Client, r *Request) (*Answer, bool, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	a, sent, err := c.Post(ctx, r)
	if ctx.Err() != nil {
		t.Fatal("no answer in", patience)
	}
	return a, sent, err
}
