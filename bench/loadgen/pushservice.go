package loadgen

import (
	"bytes"
	"fmt"
	"strings"
)

// PushService is the transport of devices of the push service, and the way of senders who post to push endpoints.
const PushService = "push"

// pushWire is a device without channels.
type pushWire struct{ webSocketWire }

func newPushWire(t Target) *pushWire {
	return &pushWire{*newWebSocketWire(t, false, []byte(`{"messageType":"hello","use_webpush":true}`))}
}

func (w *pushWire) begin() []byte {
	return fmt.Appendf(nil, "GET /push HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: push-notification\r\n\r\n", w.host)
}

func (w *pushWire) say(dst, _ []byte) []byte { return dst }

func (w *pushWire) ack(dst []byte, _ [][]byte) []byte { return dst }

func (w *pushWire) read(frame []byte) (a arrival, err error) {
	if bytes.HasPrefix(frame, []byte(`{"messageType":"hello"`)) {
		a.kind = welcome
	}
	return a, nil
}

// pushRequests are one message to each push endpoint.
func (c *PublishConfig) pushRequests(t Target) (all []*request) {
	body := strings.Repeat("s", c.Size)
	for _, path := range c.Endpoints {
		all = append(all, &request{copies: 1, bytes: fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: %s\r\nAuthorization: %s\r\nTTL: 86400\r\nUrgency: normal\r\n"+
			"Content-Encoding: aes128gcm\r\nContent-Type: application/octet-stream\r\nContent-Length: %d\r\n\r\n%s", path, t.HTTP, c.VAPID, c.Size, body)})
	}
	return all
}
