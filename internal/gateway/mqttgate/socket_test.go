package mqttgate_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"godwit.dev/godwit/internal/gateway/mqttgate/wire"
)

func TestPacketsMayBeCutAnywhereInMessages(t *testing.T) {
	s := start(t)
	r := dialSocket(t, s, wire.V5)
	p := &peer{raw: r, t: t}
	all := wire.AppendConnect(nil, hi(wire.V5, "ann", ""), nil, nil)
	all = wire.AppendSubscribe(all, wire.V5, 77, nil, wire.Filter{Name: []byte("a")})
	h := wire.Head{QoS: 1, ID: 9, Topic: "a"}
	all = append(wire.AppendPublish(all, wire.V5, &h, 5), "hello"...)
	for _, b := range all { // each byte is a message of its own
		p.send([]byte{b})
	}
	p.want(wire.CONNACK)
	p.suback(wire.SUBACK)
	for range 2 { // the answer and the message, in either order
		switch packet, err := p.any(); packet.Type() {
		case wire.PUBACK, wire.PUBLISH:
		default:
			t.Fatalf("got %s, %v", packet.Type(), err)
		}
	}
	p.send(append(append([]byte{}, wire.PingRequest...), wire.PingRequest...)) // two packets in one message
	p.want(wire.PINGRESP)
	p.want(wire.PINGRESP)
}

func TestWebSocketNeedsTheSubprotocolAndBinaryMessages(t *testing.T) {
	s := start(t)
	_, resp, err := websocket.Dial(t.Context(), s.URL+"/mqtt", &websocket.DialOptions{Subprotocols: []string{"godwit.v1.json"}})
	if err == nil || resp == nil || resp.StatusCode != http.StatusBadRequest {
		t.Fatalf("%v, want 400", err)
	}
	if body, _ := io.ReadAll(resp.Body); !strings.Contains(string(body), "mqtt") {
		t.Errorf("answered with %s", body)
	}
	_, resp, err = websocket.Dial(t.Context(), s.URL+"/mqtt", &websocket.DialOptions{Subprotocols: []string{"mqtt"}, HTTPHeader: http.Header{"Origin": {"https://evil.example"}}})
	if err == nil || resp == nil || resp.StatusCode != http.StatusForbidden {
		t.Fatalf("a foreign page: %v, want 403", err)
	}
	c, _, err := websocket.Dial(t.Context(), s.URL+"/mqtt", &websocket.DialOptions{Subprotocols: []string{"mqtt"}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseNow()
	if err := c.Write(t.Context(), websocket.MessageText, wire.AppendConnect(nil, hi(wire.V5, "ann", ""), nil, nil)); err != nil {
		t.Fatal(err)
	}
	if _, b, err := c.Read(t.Context()); err == nil {
		t.Errorf("a text message is answered with %x", b)
	}
}
