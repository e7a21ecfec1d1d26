package loadgen

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"godwit.dev/godwit/internal/notify/frame"
	domain "godwit.dev/godwit/internal/notify/notification"
)

// note returns a stored notification with data that holds a stamp.
func note(data []byte) *domain.Notification {
	now := time.UnixMilli(1_700_000_000_000)
	return &domain.Notification{
		ID: "ride-1", CreatedAt: now, ExpiresAt: now.Add(time.Hour),
		Content: domain.Content{Title: `say "seq":9`, Data: data, ContentType: "application/json"},
	}
}

func TestFramesOfTheServerAreRead(t *testing.T) {
	data, stamp := makeData(200)
	putStamp(data[stamp:], due)
	n := note(data)
	read := map[frame.Format]func([]byte) (arrival, error){
		frame.JSON: readJSON, frame.Proto: readProto,
		frame.SSE: func(b []byte) (arrival, error) { return (&sseWire{}).read(bytes.TrimSuffix(b, []byte("\n\n"))) },
	}
	for f, read := range read {
		tail := frame.NotificationTail(n, f)
		b := append(frame.AppendNotificationHead(nil, f, 41, 2, len(tail)), tail...)
		a, err := read(b)
		if err != nil || a.kind != notification || a.seq != 41 || a.attempt != 2 || string(a.id) != "ride-1" || a.due != due {
			t.Errorf("format %s: read %+v, %v", f, a, err)
		}
		w := frame.AppendWelcome(nil, f, &frame.Welcome{Session: "s1", App: "demo", Recipient: "r", Heartbeat: time.Minute})
		if a, err := read(w); err != nil || a.kind != welcome {
			t.Errorf("format %s: a welcome is read as %+v, %v", f, a, err)
		}
		g := frame.AppendGoodbye(nil, f, frame.Goodbye{Reason: "shutdown"})
		if a, err := read(g); err != nil || a.kind != goodbye {
			t.Errorf("format %s: a goodbye is read as %+v, %v", f, a, err)
		}
	}
}

// FuzzParsers: a parser must neither panic nor read beyond its input, for any input split into any pieces.
func FuzzParsers(f *testing.F) {
	for _, s := range []string{
		"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n",
		"\x81\x05hello", "\x82\x7e\x00\x80", "MSG a 1 5\r\nhello\r\n", "+OK\r\n", "\x30\x07\x00\x01a\x00\x01xy", "\x40\x02\x00\x01",
		`{"notification":{"seq":1,"attempt":1,"id":"a","data":{"due":"0123456789abcdef"}}}`, "\x12\x04\x08\x01\x10\x01",
		"\x00\x00\x04\x03\x00\x00\x00\x00\x01\x00\x00\x00\x08", "event: notification\nid: 1\ndata: {\"seq\":1,\"attempt\":1,\"id\":\"a\"",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		within := func(what string, n int) {
			if n < 0 || n > len(b) {
				t.Fatalf("%s used %d of %d bytes", what, n, len(b))
			}
		}
		_, _, n, _ := httpResponse(b)
		within("HTTP", n)
		_, _, n, _ = wsFrame(b)
		within("WebSocket", n)
		_, _, n, _ = mqttPacket(b)
		within("MQTT", n)
		_, _, n, _ = natsOp(b)
		within("NATS", n)
		n, _, _, _ = newGRPCPub().parse(bytes.Clone(b), 1)
		within("HTTP/2", n)
		_, _ = readJSON(b)
		_, _ = readProto(b)
		_, _ = (&sseWire{}).read(b)
		_, _ = newMQTTWire("x").read(b)
		_, _ = newNammayatriWire(Target{}, "x").read(b)
	})
}

func TestResponsesAreReadInAnyPieces(t *testing.T) {
	for _, tc := range []struct {
		in, body string
		status   int
	}{
		{"HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: 7\r\n\r\n{\"a\":1}", `{"a":1}`, 201},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\na\r\n0123456789\r\n0\r\n\r\n", "abc0123456789", 200},
		{"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n", "", 503},
	} {
		for cut := range len(tc.in) {
			if _, _, n, err := httpResponse([]byte(tc.in[:cut])); n != 0 || err != nil {
				t.Errorf("%q is taken for complete: %d, %v", tc.in[:cut], n, err)
			}
		}
		status, body, n, err := httpResponse([]byte(tc.in + "HTTP/1.1"))
		if err != nil || status != tc.status || string(body) != tc.body || n != len(tc.in) {
			t.Errorf("%.20q is %d %q, %d bytes of %d, %v", tc.in, status, body, n, len(tc.in), err)
		}
	}
}

func TestAcknowledgementsAreValidFrames(t *testing.T) {
	ids := [][]byte{[]byte("a"), []byte("b")}
	for name, decode := range map[string]func(*frame.Client) error{
		"JSON":     func(c *frame.Client) error { return frame.DecodeJSON(ackJSON(ids), c) },
		"protobuf": func(c *frame.Client) error { return frame.DecodeProto(ackProto(ids), c) },
	} {
		var c frame.Client
		if err := decode(&c); err != nil || c.Kind != frame.KindAck || fmt.Sprintf("%s", c.IDs) != "[a b]" {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
	}
}

func TestSeqsTellDuplicatesFromDisorder(t *testing.T) {
	var s seqs
	for i, c := range []struct {
		seq         uint64
		fresh, late bool
	}{
		{1, true, false},
		{2, true, false},
		{2, false, true},
		{5, true, false},
		{4, true, true},
		{4, false, true},
		{3, true, true},
		{1, false, true},
		{69, true, false},
		{5, false, true},
		{6, true, true},
		{200, true, false},
		{136, true, true},
		{135, false, true}, // too old to be kept
	} {
		if fresh, late := s.add(c.seq); fresh != c.fresh || late != c.late {
			t.Errorf("%d: seq %d is fresh: %t, late: %t; want %t, %t", i, c.seq, fresh, late, c.fresh, c.late)
		}
	}
}
