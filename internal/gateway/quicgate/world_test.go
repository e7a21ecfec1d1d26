package quicgate_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/quic-go/webtransport-go"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"godwit.dev/godwit/api/godwitpb"
	"godwit.dev/godwit/internal/gateway/gatetest"
	"godwit.dev/godwit/internal/gateway/quicgate"
	"godwit.dev/godwit/internal/messaging/pubsub"
	"godwit.dev/godwit/internal/server/certs/certstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// gates are the gateways of servers under test, by server.
var gates sync.Map

// door is a gateway with its address.
type door struct {
	*quicgate.Gateway
	addr  string
	roots *x509.CertPool
	stop  func() // ends serving and waits for it
}

// mount serves QUIC beside a server.
func mount(t testing.TB, s *gatetest.Server) { mountWith(t, s, quicgate.Config{}) }

func mountWith(t testing.TB, s *gatetest.Server, cfg quicgate.Config) {
	cfg.Hub, cfg.Origins, cfg.Handler, cfg.Log = s.Hub, s.Access, s.Mux, s.Log
	cert, roots := certificate(t)
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &door{Gateway: quicgate.New(cfg), addr: pc.LocalAddr().String(), roots: roots}
	gates.Store(s, d)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	served := make(chan struct{})
	go func() {
		defer close(served)
		if err := d.Serve(ctx, pc, &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}); !errors.Is(err, context.Canceled) {
			t.Errorf("serving ended with %v", err)
		}
	}()
	d.stop = sync.OnceFunc(func() {
		cancel()
		<-served
		stop, end := context.WithTimeout(context.Background(), time.Minute)
		defer end()
		if err := d.Shutdown(stop); err != nil {
			t.Error(err)
		}
		_ = pc.Close()
	})
	t.Cleanup(d.stop)
}

func doorOf(s *gatetest.Server) *door {
	d, _ := gates.Load(s)
	return d.(*door)
}

// dialer dials with the server's certificate.
func (d *door) dialer() *webtransport.Transport {
	return &webtransport.Transport{TLSClientConfig: &tls.Config{RootCAs: d.roots, MinVersion: tls.VersionTLS13, NextProtos: []string{"h3"}}}
}

// dial opens a session.
func dial(t testing.TB, s *gatetest.Server, query url.Values, header http.Header) (*webtransport.Session, *http.Response, error) {
	d := doorOf(s)
	wt := d.dialer()
	t.Cleanup(func() { _ = wt.Close() })
	resp, sess, err := wt.Dial(t.Context(), "https://"+d.addr+quicgate.Path+"?"+query.Encode(), header)
	if err != nil {
		return nil, resp, err
	}
	t.Cleanup(func() { _ = sess.CloseWithError(0, "") })
	return sess, resp, nil
}

// client is a client of either encoding.
type client struct {
	sess *webtransport.Session
	str  *webtransport.Stream
	in   *bufio.Reader
	text bool
}

func open(t testing.TB, s *gatetest.Server, protocol string) (*client, error) {
	sess, _, err := dial(t, s, url.Values{"protocol": {protocol}}, nil)
	if err != nil {
		return nil, err
	}
	str, err := sess.OpenStreamSync(t.Context())
	if err != nil {
		return nil, err
	}
	return &client{sess: sess, str: str, in: bufio.NewReader(str), text: protocol == quicgate.ProtocolJSON}, nil
}

// over is a client of JSON on a session.
func over(t testing.TB, sess *webtransport.Session) *client {
	str, err := sess.OpenStreamSync(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return &client{sess: sess, str: str, in: bufio.NewReader(str), text: true}
}

func dialAs(protocol string) func(t testing.TB, s *gatetest.Server, o gatetest.Options) (gatetest.Client, error) {
	return func(t testing.TB, s *gatetest.Server, o gatetest.Options) (gatetest.Client, error) {
		c, err := open(t, s, protocol)
		if err != nil {
			return nil, err
		}
		return c, c.Send(t.Context(), o.HelloJSON())
	}
}

func (c *client) write(b []byte) error {
	_, err := c.str.Write(append(binary.AppendUvarint(nil, uint64(len(b))), b...))
	return err
}

func (c *client) Send(_ context.Context, text string) error {
	if c.text {
		return c.write([]byte(text))
	}
	m, err := gatetest.ToProto(text)
	if err != nil {
		return err
	}
	b, err := proto.Marshal(m)
	if err != nil {
		return err
	}
	return c.write(b)
}

func (c *client) SendBad(ctx context.Context) error {
	if c.text {
		return c.Send(ctx, `{"explode":`)
	}
	return c.write([]byte{0x12, 0xff})
}

// frame reads the next frame that is none of the signs of life.
func (c *client) frame() ([]byte, error) {
	for {
		n, err := binary.ReadUvarint(c.in)
		if err != nil {
			return nil, err
		}
		if n == 0 {
			continue
		}
		b := make([]byte, n)
		_, err = io.ReadFull(c.in, b)
		return b, err
	}
}

func (c *client) Next(ctx context.Context) (string, error) {
	stop := context.AfterFunc(ctx, func() { _ = c.str.SetReadDeadline(time.Now()) })
	defer stop()
	b, err := c.frame()
	if err != nil || c.text {
		return string(b), err
	}
	var m godwitpb.ServerFrame
	if err := proto.Unmarshal(b, &m); err != nil {
		return "", fmt.Errorf("%x is no ServerFrame: %w", b, err)
	}
	return gatetest.FromProto(&m)
}

func (c *client) Close() { _ = c.sess.CloseWithError(0, "") }

// certificate makes the server's certificate, for 127.0.0.1.
func certificate(t testing.TB) (tls.Certificate, *x509.CertPool) {
	certFile, keyFile, caFile := certstest.NewAuthority(t).Node(t, time.Now().Add(time.Hour))
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	pem, err := os.ReadFile(caFile)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	return pair, roots
}

// publish publishes to a topic.
func publish(t testing.TB, s *gatetest.Server, topic, data string) {
	t.Helper()
	if err := s.Topics.Publish(t.Context(), gatetest.App, &pubsub.Message{Topic: topic, Data: []byte(data), ContentType: "application/json"}); err != nil {
		t.Fatal(err)
	}
}
