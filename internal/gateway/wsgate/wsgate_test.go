package wsgate_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"godwit.dev/godwit/api/godwitpb"
	"godwit.dev/godwit/internal/engine/reactor"
	"godwit.dev/godwit/internal/gateway/gatetest"
	"godwit.dev/godwit/internal/gateway/wsgate"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func mount(_ testing.TB, s *gatetest.Server) {
	s.Mux.Handle("/v1/connect", wsgate.New(wsgate.Config{Hub: s.Hub, Origins: s.Access, Reactor: s.Reactor, Log: s.Log}))
}

func TestGatewayJSON(t *testing.T) {
	gatetest.Run(t, gatetest.Gate{Mount: mount, Dial: dialJSON})
}

func TestGatewayOnTwoNodes(t *testing.T) {
	gatetest.RunOnTwo(t, gatetest.Gate{Mount: mount, Dial: dialJSON})
}

func TestGatewayProtoOnTwoNodes(t *testing.T) {
	gatetest.RunAgainOnTwo(t, gatetest.Gate{Mount: mount, Dial: dialProto})
}

func TestGatewayProto(t *testing.T) {
	gatetest.RunEncoded(t, gatetest.Gate{Mount: mount, Dial: dialProto})
}

func TestGatewayOverTLS(t *testing.T) {
	gatetest.RunCarried(t, gatetest.Gate{Dial: dialJSON, Mount: func(t testing.TB, s *gatetest.Server) {
		s.UseTLS(false)
		mount(t, s)
	}})
}

func TestGatewayOnPortableDriver(t *testing.T) {
	gatetest.RunCarried(t, gatetest.Gate{Mount: mount, Dial: dialJSON, Driver: reactor.DriverGoroutine})
}

func start(t *testing.T) *gatetest.Server {
	return gatetest.Start(t, func(s *gatetest.Server) { mount(t, s) })
}

func dial(t testing.TB, s *gatetest.Server, query string, protocols ...string) (*websocket.Conn, *http.Response, error) {
	c, resp, err := websocket.Dial(t.Context(), s.URL+"/v1/connect"+query, &websocket.DialOptions{
		Subprotocols: protocols, HTTPClient: s.HTTP.Client(),
	})
	if err == nil {
		c.SetReadLimit(4 << 20)
	}
	return c, resp, err
}

func dialJSON(t testing.TB, s *gatetest.Server, o gatetest.Options) (gatetest.Client, error) {
	ws, _, err := dial(t, s, "")
	if err != nil {
		return nil, err
	}
	c := &jsonClient{ws}
	return c, c.Send(t.Context(), o.HelloJSON())
}

type jsonClient struct{ ws *websocket.Conn }

func (c *jsonClient) Send(ctx context.Context, text string) error {
	return c.ws.Write(ctx, websocket.MessageText, []byte(text))
}

func (c *jsonClient) SendBad(ctx context.Context) error { return c.Send(ctx, `{"explode":`) }

func (c *jsonClient) Next(ctx context.Context) (string, error) {
	kind, b, err := c.ws.Read(ctx)
	if err == nil && kind != websocket.MessageText {
		err = errors.New("the message is not text")
	}
	return string(b), ended(err)
}

func (c *jsonClient) Close() { _ = c.ws.CloseNow() }

// ended turns the close frames that follow a goodbye into io.EOF.
func ended(err error) error {
	switch websocket.CloseStatus(err) {
	case websocket.StatusNormalClosure, websocket.StatusPolicyViolation, websocket.StatusServiceRestart, websocket.StatusTryAgainLater:
		return io.EOF
	}
	return err
}

func dialProto(t testing.TB, s *gatetest.Server, o gatetest.Options) (gatetest.Client, error) {
	ws, _, err := dial(t, s, "", wsgate.ProtocolProto)
	if err != nil {
		return nil, err
	}
	c := &protoClient{ws}
	return c, c.Send(t.Context(), o.HelloJSON())
}

type protoClient struct{ ws *websocket.Conn }

func (c *protoClient) write(ctx context.Context, m *godwitpb.ClientFrame) error {
	b, err := proto.Marshal(m)
	if err != nil {
		return err
	}
	return c.ws.Write(ctx, websocket.MessageBinary, b)
}

func (c *protoClient) Send(ctx context.Context, text string) error {
	m, err := gatetest.ToProto(text)
	if err != nil {
		return err
	}
	return c.write(ctx, m)
}

func (c *protoClient) SendBad(ctx context.Context) error {
	return c.ws.Write(ctx, websocket.MessageBinary, []byte{0x12, 0xff})
}

func (c *protoClient) Next(ctx context.Context) (string, error) {
	kind, b, err := c.ws.Read(ctx)
	if err != nil {
		return "", ended(err)
	}
	var m godwitpb.ServerFrame
	if err := proto.Unmarshal(b, &m); err != nil || kind != websocket.MessageBinary {
		return "", fmt.Errorf("%v message %x is no ServerFrame: %w", kind, b, err)
	}
	return gatetest.FromProto(&m)
}

func (c *protoClient) Close() { _ = c.ws.CloseNow() }

func TestSubprotocolIsChosen(t *testing.T) {
	s := start(t)
	for _, c := range []struct {
		offer []string
		want  string
	}{
		{nil, ""},
		{[]string{wsgate.ProtocolProto, wsgate.ProtocolJSON}, wsgate.ProtocolProto},
		{[]string{"other", wsgate.ProtocolJSON}, wsgate.ProtocolJSON},
	} {
		ws, _, err := dial(t, s, "", c.offer...)
		if err != nil {
			t.Fatal(err)
		}
		if got := ws.Subprotocol(); got != c.want {
			t.Errorf("offered %v, got %q, want %q", c.offer, got, c.want)
		}
		_ = ws.CloseNow()
	}
}

func TestHandshakeIsRefusedWithAProblem(t *testing.T) {
	s := start(t)
	for _, c := range []struct {
		name, query string
		header      http.Header
		protocol    string
		status      int
		says        string
	}{
		{name: "unknown subprotocol", protocol: "mqtt", status: 400, says: "godwit.v1.json"},
		{name: "bad recipient", query: "?recipient=a%2Fb", status: 400, says: `"field":"recipient"`},
		{name: "foreign origin", header: http.Header{"Origin": {"https://evil.example"}}, status: 403, says: "origin"},
	} {
		opts := &websocket.DialOptions{HTTPHeader: c.header}
		if c.protocol != "" {
			opts.Subprotocols = []string{c.protocol}
		}
		_, resp, err := websocket.Dial(t.Context(), s.URL+"/v1/connect"+c.query, opts)
		if err == nil || resp == nil {
			t.Errorf("%s: %v, want a refusal", c.name, err)
			continue
		}
		body, _ := io.ReadAll(resp.Body)
		if resp.StatusCode != c.status || !strings.Contains(string(body), c.says) || resp.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %d %s, want %d saying %q", c.name, resp.StatusCode, body, c.status, c.says)
		}
	}
	resp, err := s.HTTP.Client().Get(s.URL + "/v1/connect")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusUpgradeRequired || resp.Header.Get("Upgrade") != "websocket" {
		t.Errorf("plain GET: %d, want 426 with Upgrade", resp.StatusCode)
	}
}

func TestSameOriginPageMayConnect(t *testing.T) {
	s := start(t)
	ws, _, err := websocket.Dial(t.Context(), s.URL+"/v1/connect", &websocket.DialOptions{HTTPHeader: http.Header{"Origin": {s.URL}}})
	if err != nil {
		t.Fatal(err)
	}
	_ = ws.CloseNow()
}

func TestQuerySaysWhoTheClientIs(t *testing.T) {
	s := start(t)
	token := s.Token(t, "driver-1", time.Minute)
	ws, _, err := dial(t, s, "?device=tab&token="+token)
	if err != nil {
		t.Fatal(err)
	}
	c := &jsonClient{ws}
	defer c.Close()
	if err := c.Send(t.Context(), `{"hello":{}}`); err != nil {
		t.Fatal(err)
	}
	if text, err := c.Next(t.Context()); err != nil || !strings.Contains(text, `"recipient":"driver-1"`) {
		t.Fatalf("%s, %v; want a welcome of driver-1", text, err)
	}
	if all, _, _ := s.Hub.Sessions(t.Context(), gatetest.App, []string{"driver-1"}); len(all[0]) != 1 || all[0][0].Device != "tab" || all[0][0].Gateway != "ws" {
		t.Errorf("presence says %+v", all[0])
	}
}

func TestCloseCodesSayWhy(t *testing.T) {
	s := start(t)
	for _, c := range []struct {
		name    string
		do      func(ws *websocket.Conn) error
		want    websocket.StatusCode
		goodbye string
	}{
		{"binary message on JSON", func(ws *websocket.Conn) error {
			return ws.Write(t.Context(), websocket.MessageBinary, []byte("x"))
		}, websocket.StatusUnsupportedData, "wrong_message_type"},
		{"message too big", func(ws *websocket.Conn) error {
			return ws.Write(t.Context(), websocket.MessageText, make([]byte, 1600<<10))
		}, websocket.StatusMessageTooBig, "message_too_large"},
		{"wrong token", func(ws *websocket.Conn) error {
			return ws.Write(t.Context(), websocket.MessageText, []byte(`{"hello":{"app":"demo","token":"wrong"}}`))
		}, websocket.StatusPolicyViolation, "unauthenticated"},
	} {
		ws, _, err := dial(t, s, "")
		if err != nil {
			t.Fatal(err)
		}
		if err := c.do(ws); err != nil {
			t.Logf("%s: write: %v", c.name, err) // the server may close before the client has sent all
		}
		var last []byte
		for err == nil {
			var next []byte
			if _, next, err = ws.Read(t.Context()); err == nil {
				last = next
			}
		}
		if want := `{"goodbye":{"reason":"` + c.goodbye + `"`; !strings.HasPrefix(string(last), want) {
			t.Errorf("%s: the last frame is %s, want %s…", c.name, last, want)
		}
		if got := websocket.CloseStatus(err); got != c.want {
			t.Errorf("%s: closed with %v, want code %d", c.name, err, c.want)
		}
		_ = ws.CloseNow()
	}
}

func TestFrameBeforeHelloIsAnswered(t *testing.T) {
	s := start(t)
	ws, _, err := dial(t, s, "")
	if err != nil {
		t.Fatal(err)
	}
	c := &jsonClient{ws}
	defer c.Close()
	for _, f := range []string{`{"ping":{}}`, `{"hello":{"app":"demo","recipient":"driver-1"}}`, `{"ping":{}}`} {
		if err := c.Send(t.Context(), f); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"hello_required", "welcome", "pong"} { // the pong waits until the hello is handled
		if text, err := c.Next(t.Context()); err != nil || !strings.Contains(text, want) {
			t.Fatalf("%s, %v; want %s", text, err, want)
		}
	}
}

func TestFramesBehindTheHandshakeAreNotLost(t *testing.T) {
	s := start(t)
	nc, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	hello := []byte(`{"hello":{"app":"demo","recipient":"driver-1"}}`)
	request := "GET /v1/connect HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
	frame := append([]byte{0x81, 0x80 | byte(len(hello)), 0, 0, 0, 0}, hello...) // a mask of zeros leaves the payload unchanged
	if _, err := nc.Write(append([]byte(request), frame...)); err != nil {
		t.Fatal(err)
	}
	br := bufio.NewReader(nc)
	resp, err := http.ReadResponse(br, nil)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols || resp.Header.Get("Sec-WebSocket-Accept") != "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" {
		t.Fatalf("%+v, %v; want a switch of protocols", resp, err)
	}
	_ = resp.Body.Close()
	got := make([]byte, 64)
	if _, err := io.ReadFull(br, got); err != nil || !strings.Contains(string(got), `{"welcome":`) {
		t.Errorf("%q, %v; want a welcome", got, err)
	}
}

func TestCloseCodesSayWhetherToComeBack(t *testing.T) {
	s := start(t)
	welcomed := func(device string) *websocket.Conn {
		t.Helper()
		ws, _, err := dial(t, s, "")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = ws.CloseNow() })
		if err := ws.Write(t.Context(), websocket.MessageText, []byte(`{"hello":{"app":"demo","recipient":"driver-1","device":"`+device+`"}}`)); err != nil {
			t.Fatal(err)
		}
		if _, text, err := ws.Read(t.Context()); err != nil || !strings.Contains(string(text), "welcome") {
			t.Fatalf("%s, %v; want a welcome", text, err)
		}
		return ws
	}
	closes := func(ws *websocket.Conn, reason string, want websocket.StatusCode) {
		t.Helper()
		for {
			_, _, err := ws.Read(t.Context())
			if err == nil {
				continue
			}
			var closed websocket.CloseError
			if !errors.As(err, &closed) || closed.Code != want || closed.Reason != reason {
				t.Errorf("closed with %v, want code %d, %s", err, want, reason)
			}
			return
		}
	}
	first := welcomed("phone")
	second := welcomed("phone")
	closes(first, "replaced", websocket.StatusNormalClosure)
	if _, _, err := s.Hub.Disconnect(t.Context(), gatetest.App, "driver-1", "disconnected"); err != nil {
		t.Fatal(err)
	}
	closes(second, "disconnected", websocket.StatusTryAgainLater)
	third := welcomed("phone")
	s.Stop(t)
	closes(third, "shutdown", websocket.StatusServiceRestart)
}

func TestHandshakesThatAProxyBrokeAreTold(t *testing.T) {
	s := start(t)
	for _, c := range []struct {
		name, version string
		header        map[string]string
		status        int
		says          string
	}{
		{"as Firefox sends it", "1.1", map[string]string{"Connection": "keep-alive, Upgrade"}, http.StatusSwitchingProtocols, ""},
		{"in other cases", "1.1", map[string]string{"Upgrade": "WebSocket", "Connection": "upgrade"}, http.StatusSwitchingProtocols, ""},
		{"with compression offered", "1.1", map[string]string{"Sec-WebSocket-Extensions": "permessage-deflate; client_max_window_bits"}, http.StatusSwitchingProtocols, ""},
		{"Connection was replaced", "1.1", map[string]string{"Connection": "close"}, http.StatusUpgradeRequired, "proxy_set_header"},
		{"Upgrade was dropped", "1.0", map[string]string{"Upgrade": "", "Connection": "close"}, http.StatusUpgradeRequired, "proxy_set_header"},
		{"the version was lowered", "1.0", nil, http.StatusHTTPVersionNotSupported, "proxy_http_version"},
		{"another version of WebSocket", "1.1", map[string]string{"Sec-WebSocket-Version": "8"}, http.StatusUpgradeRequired, "must be 13"},
	} {
		header := map[string]string{"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA=="}
		maps.Copy(header, c.header)
		nc, err := net.Dial("tcp", s.Addr)
		if err != nil {
			t.Fatal(err)
		}
		request := "GET /v1/connect HTTP/" + c.version + "\r\nHost: x\r\n"
		for name, value := range header {
			if value != "" {
				request += name + ": " + value + "\r\n"
			}
		}
		if _, err := io.WriteString(nc, request+"\r\n"); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(nc), nil)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if resp.StatusCode != c.status {
			t.Errorf("%s: answered %d, want %d", c.name, resp.StatusCode, c.status)
		}
		if c.says != "" {
			body, _ := io.ReadAll(resp.Body)
			if !strings.Contains(string(body), c.says) || resp.Header.Get("Content-Type") != "application/problem+json" {
				t.Errorf("%s: answered %s, want a problem that says %s", c.name, body, c.says)
			}
		}
		_ = nc.Close()
	}
}
