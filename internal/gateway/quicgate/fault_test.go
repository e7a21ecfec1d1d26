package quicgate_test

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/quic-go/webtransport-go"

	"godwit.dev/godwit/internal/gateway/gatetest"
	"godwit.dev/godwit/internal/gateway/quicgate"
)

func start(t *testing.T, cfg quicgate.Config) *gatetest.Server {
	return gatetest.Start(t, func(s *gatetest.Server) { mountWith(t, s, cfg) })
}

// patient is the context of a test that waits.
func patient(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), gatetest.Patience)
	t.Cleanup(cancel)
	return ctx
}

// welcomed opens a session of driver-1 and reads its welcome.
func welcomed(t *testing.T, s *gatetest.Server, device string) *client {
	t.Helper()
	c, err := open(t, s, quicgate.ProtocolJSON)
	if err == nil {
		err = c.Send(t.Context(), `{"hello":{"app":"demo","recipient":"driver-1","device":"`+device+`"}}`)
	}
	if err != nil {
		t.Fatal(err)
	}
	c.gets(t, "welcome")
	return c
}

// gets checks that the next frame contains want.
func (c *client) gets(t *testing.T, want string) {
	t.Helper()
	if text, err := c.Next(patient(t)); err != nil || !strings.Contains(text, want) {
		t.Fatalf("%.100s, %v; want %s", text, err, want)
	}
}

// closes reads to the end of the stream, ends the client's side, and checks the session's close.
func (c *client) closes(t *testing.T, code webtransport.SessionErrorCode, reason string) {
	t.Helper()
	ctx := patient(t)
	for {
		if _, err := c.Next(ctx); err != nil {
			break
		}
	}
	_ = c.str.Close()
	_, err := c.sess.AcceptStream(ctx)
	var closed *webtransport.SessionError
	if !errors.As(err, &closed) || closed.ErrorCode != code || closed.Message != reason || !closed.Remote {
		t.Errorf("closed with %v, want code %d, %s", err, code, reason)
	}
}

func TestRequestIsRefusedWithAProblem(t *testing.T) {
	s := start(t, quicgate.Config{})
	for _, c := range []struct {
		name   string
		query  url.Values
		header http.Header
		status int
	}{
		{"unknown protocol", url.Values{"protocol": {"mqtt"}}, nil, 400},
		{"datagrams that are no number", url.Values{"datagrams": {"yes"}}, nil, 400},
		{"bad recipient", url.Values{"recipient": {"a/b"}}, nil, 400},
		{"foreign origin", nil, http.Header{"Origin": {"https://evil.example"}}, 403},
	} {
		_, resp, err := dial(t, s, c.query, c.header)
		if err == nil || resp == nil || resp.StatusCode != c.status {
			t.Errorf("%s: %+v, %v; want %d", c.name, resp, err, c.status)
		}
	}
}

func TestSameOriginPageMayOpenASession(t *testing.T) {
	s := start(t, quicgate.Config{})
	if _, _, err := dial(t, s, nil, http.Header{"Origin": {"https://" + doorOf(s).addr}}); err != nil {
		t.Error(err)
	}
}

func TestQuerySaysWhoTheClientIs(t *testing.T) {
	s := start(t, quicgate.Config{})
	sess, _, err := dial(t, s, url.Values{"device": {"tab"}, "token": {s.Token(t, "driver-1", time.Minute)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := over(t, sess)
	if err := c.Send(t.Context(), `{"hello":{}}`); err != nil {
		t.Fatal(err)
	}
	c.gets(t, `"recipient":"driver-1"`)
	if all, _, _ := s.Hub.Sessions(t.Context(), gatetest.App, []string{"driver-1"}); len(all[0]) != 1 || all[0][0].Device != "tab" || all[0][0].Gateway != "quic" {
		t.Errorf("presence says %+v", all[0])
	}
}

func TestCloseCodesSayWhy(t *testing.T) {
	s := start(t, quicgate.Config{})
	for _, c := range []struct {
		name   string
		do     func(c *client) error
		code   webtransport.SessionErrorCode
		reason string
	}{
		{"a frame that is too long", func(c *client) error {
			_, err := c.str.Write(binary.AppendUvarint(nil, 1600<<10))
			return err
		}, 1009, "message_too_large"},
		{"an end within a frame", func(c *client) error {
			_, err := c.str.Write([]byte{10, 'x'})
			return errors.Join(err, c.str.Close())
		}, 1002, "cut_frame"},
		{"a second stream", func(c *client) error {
			str, err := c.sess.OpenStream()
			if err == nil {
				_, err = str.Write([]byte("x"))
			}
			return err
		}, 4101, "second_stream"},
		{"a stream of one direction", func(c *client) error {
			str, err := c.sess.OpenUniStream()
			if err == nil {
				_, err = str.Write([]byte("x"))
			}
			for range 1000 { // it is noticed when frames come
				if c.Send(context.Background(), `{"ping":{}}`) != nil || c.sess.Context().Err() != nil {
					break
				}
				if _, wrong := c.Next(context.Background()); wrong != nil {
					break
				}
			}
			return err
		}, 4101, "second_stream"},
		{"a wrong token", func(c *client) error {
			return c.Send(context.Background(), `{"hello":{"app":"demo","token":"wrong"}}`)
		}, 1008, "unauthenticated"},
		{"the end of the stream", func(c *client) error { return c.str.Close() }, 1000, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			cl := welcomed(t, s, "")
			if err := c.do(cl); err != nil {
				t.Fatal(err)
			}
			cl.closes(t, c.code, c.reason)
		})
	}
}

func TestDatagramsOfClientsEndTheSession(t *testing.T) {
	s := start(t, quicgate.Config{})
	c := welcomed(t, s, "")
	for {
		if err := c.sess.SendDatagram([]byte("{}")); err != nil {
			t.Fatal(err)
		}
		if err := c.Send(t.Context(), `{"ping":{}}`); err != nil {
			break // the session is closed
		}
		if _, err := c.Next(patient(t)); err != nil {
			break
		}
	}
	c.closes(t, 4102, "datagram_refused")
}

func TestSessionWithoutStreamEnds(t *testing.T) {
	s := start(t, quicgate.Brisk())
	sess, _, err := dial(t, s, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := &client{sess: sess}
	_, err = c.sess.AcceptStream(patient(t))
	var closed *webtransport.SessionError
	if !errors.As(err, &closed) || closed.ErrorCode != 4103 || closed.Message != "stream_missing" {
		t.Errorf("closed with %v", err)
	}
}

func TestCloseCodesSayWhetherToComeBack(t *testing.T) {
	s := start(t, quicgate.Config{})
	first := welcomed(t, s, "phone")
	second := welcomed(t, s, "phone")
	first.closes(t, 1000, "replaced")
	if _, _, err := s.Hub.Disconnect(t.Context(), gatetest.App, "driver-1", "disconnected"); err != nil {
		t.Fatal(err)
	}
	second.closes(t, 1013, "disconnected")
	third := welcomed(t, s, "phone")
	s.Stop(t)
	third.closes(t, 1012, "shutdown")
}

func TestTopicsComeAsDatagramsToThoseWhoAsk(t *testing.T) {
	s := start(t, quicgate.Config{})
	sess, _, err := dial(t, s, url.Values{"datagrams": {"1"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := over(t, sess)
	for _, f := range []string{`{"hello":{"app":"demo","recipient":"driver-1"}}`, `{"subscribe":{"topics":["news.*"]}}`, `{"ping":{}}`} {
		if err := c.Send(t.Context(), f); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"welcome", "pong"} {
		c.gets(t, want)
	}
	publish(t, s, "news.a", `"short"`)
	if b, err := sess.ReceiveDatagram(patient(t)); err != nil || !strings.Contains(string(b), `"news.a"`) || b[0] != '{' {
		t.Errorf("the datagram is %q, %v", b, err)
	}
	publish(t, s, "news.b", `"`+strings.Repeat("long", 1000)+`"`)
	c.gets(t, `"news.b"`)
}

func TestHTTP3ServesTheSameHandler(t *testing.T) {
	s := start(t, quicgate.Config{})
	s.Mux.HandleFunc("/hello", func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Proto) })
	tr := &http3.Transport{TLSClientConfig: doorOf(s).dialer().TLSClientConfig}
	defer tr.Close()
	resp, err := (&http.Client{Transport: tr}).Get("https://" + doorOf(s).addr + "/hello")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if b, _ := io.ReadAll(resp.Body); string(b) != "HTTP/3.0" {
		t.Errorf("it says %s", b)
	}
}

func TestEarlyDataIsNotAccepted(t *testing.T) {
	s := start(t, quicgate.Config{})
	d := doorOf(s)
	conf := d.dialer().TLSClientConfig.Clone()
	conf.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	for i := range 2 {
		c, err := quic.DialAddrEarly(t.Context(), d.addr, conf, &quic.Config{EnableDatagrams: true})
		if err != nil {
			t.Fatal(err)
		}
		select {
		case <-c.HandshakeComplete():
		case <-patient(t).Done():
			t.Fatal("no handshake")
		}
		if st := c.ConnectionState(); st.Used0RTT || st.TLS.DidResume != (i == 1) {
			t.Errorf("connection %d: early data %t, resumed %t", i, st.Used0RTT, st.TLS.DidResume)
		}
		if i == 0 { // the ticket comes behind the handshake, with the server's SETTINGS
			if _, err := c.AcceptUniStream(patient(t)); err != nil {
				t.Fatal(err)
			}
		}
		_ = c.CloseWithError(0, "")
	}
}

// wire is a UDP socket that counts, and drops what comes in while it is deaf.
type wire struct {
	net.PacketConn
	sent, received atomic.Int64
	deaf           atomic.Bool
}

func newWire(t *testing.T) *wire {
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pc.Close() })
	return &wire{PacketConn: pc}
}

func (w *wire) ReadFrom(b []byte) (int, net.Addr, error) {
	for {
		n, addr, err := w.PacketConn.ReadFrom(b)
		w.received.Add(int64(n))
		if err != nil || !w.deaf.Load() {
			return n, addr, err
		}
	}
}

func (w *wire) WriteTo(b []byte, to net.Addr) (int, error) {
	w.sent.Add(int64(len(b)))
	return w.PacketConn.WriteTo(b, to)
}

// A peer that never proves its address gets at most three times the bytes that it has sent (RFC 9000, section 8.1).
func TestStrangersAreNotUsedToFloodOthers(t *testing.T) {
	s := start(t, quicgate.Brisk())
	d := doorOf(s)
	w := newWire(t)
	w.deaf.Store(true)
	tr := &quic.Transport{Conn: w}
	defer tr.Close()
	to, err := net.ResolveUDPAddr("udp", d.addr)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tr.Dial(patient(t), to, d.dialer().TLSClientConfig, &quic.Config{HandshakeIdleTimeout: time.Second}); err == nil {
		t.Fatal("a deaf client has shaken hands")
	}
	if sent, got := w.sent.Load(), w.received.Load(); got == 0 || got > 3*sent {
		t.Errorf("%d bytes came for %d", got, sent)
	}
}

func TestUnknownVersionsAreAnsweredWithThoseThatAreSpoken(t *testing.T) {
	s := start(t, quicgate.Config{})
	c, err := net.Dial("udp", doorOf(s).addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	packet := make([]byte, 1200)
	copy(packet, []byte{0xc0, 0x1a, 0x2a, 0x3a, 0x4a, 8, 1, 2, 3, 4, 5, 6, 7, 8, 0})
	if _, err := c.Write(packet); err != nil {
		t.Fatal(err)
	}
	_ = c.SetReadDeadline(time.Now().Add(gatetest.Patience))
	b := make([]byte, 1500)
	n, err := c.Read(b)
	if err != nil || n < 7 || binary.BigEndian.Uint32(b[1:]) != 0 {
		t.Fatalf("%x, %v; want a version negotiation", b[:n], err)
	}
	if list := b[n-8 : n]; !strings.Contains(string(list), "\x00\x00\x00\x01") && !strings.Contains(string(b[:n]), "\x00\x00\x00\x01") {
		t.Errorf("%x does not offer version 1", b[:n])
	}
}

func TestFloodsOfHandshakesMustProveTheirAddress(t *testing.T) {
	s := start(t, quicgate.Config{})
	d := doorOf(s)
	w := newWire(t)
	tr := &quic.Transport{Conn: w}
	defer tr.Close()
	to, err := net.ResolveUDPAddr("udp", d.addr)
	if err != nil {
		t.Fatal(err)
	}
	d.Suspect()
	c, err := tr.Dial(patient(t), to, d.dialer().TLSClientConfig, nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = c.CloseWithError(0, "")
	if n := d.Retries(); n < 1 {
		t.Errorf("%v retry tokens were sent", n)
	}
}

func TestFullGatewayRefuses(t *testing.T) {
	s := start(t, quicgate.Config{Most: 1})
	welcomed(t, s, "")
	if _, _, err := dial(t, s, nil, nil); err == nil {
		t.Error("a second connection was let in")
	}
}
