package frame_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"godwit.dev/godwit/api/godwitpb"
	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/notify/inbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/objects/object"

	"google.golang.org/protobuf/proto"
)

func load[T any](t *testing.T, name string) []T {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "..", "api", "vectors", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		About string
		Cases []T
	}
	if err := json.Unmarshal(b, &file); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if len(file.Cases) == 0 {
		t.Fatalf("%s has no cases", name)
	}
	return file.Cases
}

func TestNames(t *testing.T) {
	type vector struct {
		Name  string
		Valid bool
	}
	for _, c := range load[vector](t, "names") {
		if err := notification.CheckName("name", c.Name); (err == nil) != c.Valid {
			t.Errorf("%q: valid should be %t, got error %v", c.Name, c.Valid, err)
		}
	}
}

func TestDurations(t *testing.T) {
	type vector struct {
		Text string
		MS   *int64
	}
	for _, c := range load[vector](t, "durations") {
		d, err := notification.ParseDuration(c.Text)
		switch {
		case c.MS == nil && err == nil:
			t.Errorf("%q should be refused, got %s", c.Text, d)
		case c.MS != nil && (err != nil || d.Milliseconds() != *c.MS):
			t.Errorf("%q should be %d ms, got %s, %v", c.Text, *c.MS, d, err)
		}
	}
}

// TestDigests checks the vectors against the documented rule, so that a client library can rely on them.
func TestDigests(t *testing.T) {
	type vector struct {
		Objects []struct{ Group, Object string }
		Digest  string
	}
	for _, c := range load[vector](t, "digests") {
		var sum uint64
		for _, o := range c.Objects {
			h := sha256.Sum256([]byte(o.Group + "\n" + o.Object))
			sum += binary.BigEndian.Uint64(h[:8])
		}
		if got := fmt.Sprintf("%016x", sum); got != c.Digest {
			t.Errorf("%v: got %s, want %s", c.Objects, got, c.Digest)
		}
		if len(c.Objects) == 0 && c.Digest != frame.EmptyDigest {
			t.Errorf("digest of nothing is %s, the server says %s", c.Digest, frame.EmptyDigest)
		}
	}
}

type clientCase struct {
	Name  string
	JSON  json.RawMessage
	Text  string
	Proto []byte
	Error *struct{ Code, Field string }
}

func TestClientFramesSayTheSameInBothEncodings(t *testing.T) {
	for _, c := range load[clientCase](t, "client_frames") {
		if c.Error != nil {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			var fromJSON, fromProto frame.Client
			if err := frame.DecodeJSON(append([]byte(nil), c.JSON...), &fromJSON); err != nil {
				t.Fatal("JSON:", err)
			}
			if err := frame.DecodeProto(append([]byte(nil), c.Proto...), &fromProto); err != nil {
				t.Fatal("protobuf:", err)
			}
			if a, b := describe(&fromJSON), describe(&fromProto); a != b {
				t.Errorf("JSON says     %s\nprotobuf says %s", a, b)
			}
			if fromJSON.Kind == 0 {
				t.Error("no frame was read")
			}
		})
	}
}

func TestBadClientFramesNameWhatIsWrong(t *testing.T) {
	for _, c := range load[clientCase](t, "client_frames") {
		if c.Error == nil {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			var into frame.Client
			err := frame.DecodeJSON([]byte(c.Text), &into)
			fe, ok := err.(*frame.Error) //nolint:errorlint // the decoder promises this type
			if !ok {
				t.Fatalf("got %v, want a frame error", err)
			}
			if fe.Code != c.Error.Code || c.Error.Field != "" && fe.Field != c.Error.Field {
				t.Errorf("got %s, field %q; want %s, field %q", fe.Code, fe.Field, c.Error.Code, c.Error.Field)
			}
		})
	}
}

func describe(c *frame.Client) string {
	s := fmt.Sprintf("%s ids=%q after=%s reason=%q digest=%q", c.Kind, c.IDs, c.After, c.Reason, c.Digest)
	s += fmt.Sprintf(" group=%q objects=%q reset=%t more=%t object=%q version=%d", c.Group, c.Objects, c.Reset, c.More, c.Object, c.Version)
	s += fmt.Sprintf(" patterns=%q queue=%q", c.Patterns, c.Queue)
	if r := c.Reply; r != nil {
		var compact bytes.Buffer
		if json.Compact(&compact, r.Data) == nil { // JSON compares by value
			r.Data = compact.Bytes()
		}
		s += fmt.Sprintf(" reply to %q %q: %d %q %q %q", r.RequestID, r.ID, r.Status, r.Headers, r.ContentType, r.Data)
	}
	if c.Hello != nil {
		h := *c.Hello
		if len(h.Held) == 0 {
			h.Held = nil
		}
		s += fmt.Sprintf(" hello=%+v", h)
	}
	return s
}

func TestNotificationEncodings(t *testing.T) {
	type vector struct {
		Name    string
		Content struct {
			Title, Body, Category string
			ContentType           string `json:"content_type"`
			Data                  []byte `json:"data_base64"`
		}
		Priority string
		Seq      uint64
		Attempt  uint32
		JSON     json.RawMessage
		Proto    []byte
	}
	created := time.Date(2026, 11, 21, 0, 0, 0, 123e6, time.UTC)
	for _, c := range load[vector](t, "notifications") {
		t.Run(c.Name, func(t *testing.T) {
			priority, ok := notification.ParsePriority(c.Priority)
			if !ok {
				t.Fatalf("priority %q", c.Priority)
			}
			n := &notification.Notification{
				App: "demo", ID: "ride-9f3", Priority: priority, CreatedAt: created, ExpiresAt: created.Add(30 * time.Second),
				Content: notification.Content{
					Title: c.Content.Title, Body: c.Content.Body, Category: c.Content.Category,
					Data: c.Content.Data, ContentType: c.Content.ContentType,
				},
			}
			encode := func(f frame.Format) []byte {
				tail := frame.NotificationTail(n, f)
				return append(frame.AppendNotificationHead(nil, f, c.Seq, c.Attempt, len(tail)), tail...)
			}
			sameJSON(t, encode(frame.JSON), c.JSON)
			sameProto(t, encode(frame.Proto), c.Proto)
		})
	}
}

func TestServerFrameEncodings(t *testing.T) {
	created := time.Date(2026, 11, 21, 0, 0, 0, 123e6, time.UTC)
	encoders := map[string]func(f frame.Format) []byte{
		"welcome": func(f frame.Format) []byte {
			return frame.AppendWelcome(nil, f, &frame.Welcome{
				Session: "q0Xm1Vn7Rk2ZbYt8aWcD4g", App: "demo", Recipient: "driver-42",
				Heartbeat: 30 * time.Second, Digest: frame.EmptyDigest, ServerTime: created,
			})
		},
		"welcome with counts of the inbox": func(f frame.Format) []byte {
			return frame.AppendWelcome(nil, f, &frame.Welcome{
				Session: "q0Xm1Vn7Rk2ZbYt8aWcD4g", App: "demo", Recipient: "driver-42",
				Heartbeat: 30 * time.Second, Digest: frame.EmptyDigest, ServerTime: created, Inbox: &frame.Inbox{Unseen: 2, Unread: 5},
			})
		},
		"inbox": func(f frame.Format) []byte {
			return frame.AppendInbox(nil, f, &frame.Inbox{Unseen: 2, Unread: 5, Changed: []string{"ride-1", "ride-2"}})
		},
		"inbox with marks": func(f frame.Format) []byte {
			return frame.AppendInbox(nil, f, &frame.Inbox{Changed: []string{"ride-1", "ride-2"}, More: true, Marked: []inbox.Marked{
				{ID: "ride-1", Seen: true, Read: true, Archived: true, Pinned: true, Answered: "yes"}, {ID: "ride-2"},
			}})
		},
		"recall":             func(f frame.Format) []byte { return frame.AppendRecall(nil, f, []string{"ride-1", "ride-2"}) },
		"pong":               func(f frame.Format) []byte { return frame.AppendPong(nil, f, "") },
		"pong with a digest": func(f frame.Format) []byte { return frame.AppendPong(nil, f, "00000000000000ff") },
		"goodbye": func(f frame.Format) []byte {
			return frame.AppendGoodbye(nil, f, frame.Goodbye{Reason: "shutdown", RetryAfter: 1500 * time.Millisecond})
		},
		"error": func(f frame.Format) []byte {
			return frame.AppendError(nil, f, &frame.Error{Code: "bad_field", Message: "ack: ids is required", Field: "ids"})
		},
		"error without a field": func(f frame.Format) []byte {
			return frame.AppendError(nil, f, &frame.Error{Code: "bad_frame", Message: "not JSON"})
		},
	}
	maps.Copy(encoders, objectEncoders())
	maps.Copy(encoders, topicEncoders())
	maps.Copy(encoders, requestEncoders())
	type vector struct {
		Name  string
		JSON  json.RawMessage
		Proto []byte
	}
	for _, c := range load[vector](t, "server_frames") {
		t.Run(c.Name, func(t *testing.T) {
			encode := encoders[c.Name]
			if encode == nil {
				t.Fatal("no encoder for this case")
			}
			sameJSON(t, encode(frame.JSON), c.JSON)
			sameProto(t, encode(frame.Proto), c.Proto)
		})
	}
}

// objectEncoders make the object frames.
func objectEncoders() map[string]func(f frame.Format) []byte {
	registered := func(r frame.Registered) func(frame.Format) []byte {
		return func(f frame.Format) []byte { return frame.AppendRegistered(nil, f, &r) }
	}
	failed := func(r frame.RegistrationFailed) func(frame.Format) []byte {
		return func(f frame.Format) []byte { return frame.AppendRegistrationFailed(nil, f, &r) }
	}
	at := func(s object.State) func(frame.Format) []byte {
		return func(f frame.Format) []byte {
			return frame.Object(f, object.Key{Group: "region-1", Object: "camera-config"}, &s)
		}
	}
	return map[string]func(f frame.Format) []byte{
		"registered":                   registered(frame.Registered{Group: "region-1", Objects: []string{"camera-config", "firmware"}, Digest: "f32e4ec427813346"}),
		"registered nothing":           registered(frame.Registered{Digest: frame.EmptyDigest}),
		"registration failed for good": failed(frame.RegistrationFailed{Group: "region-1", Objects: []string{"secret"}, Code: "forbidden"}),
		"registration failed for now":  failed(frame.RegistrationFailed{Group: "region-1", Objects: []string{"camera-config"}, Code: "unavailable", Transient: true}),
		"object at the last version":   at(object.State{Version: object.MaxVersion, Known: true}),
		"object unknown above a floor": at(object.State{Version: 7}),
		"object that nobody has put":   at(object.State{}),
		"object with JSON":             at(object.State{Version: 7, Known: true, Payload: []byte(`{"iso":400}`), ContentType: "application/json"}),
		"object with text":             at(object.State{Version: 7, Known: true, Payload: []byte("two\nlines ☂"), ContentType: "text/plain"}),
		"object with bytes":            at(object.State{Version: 7, Known: true, Payload: []byte{0, 255, 128, 10}, ContentType: "application/octet-stream"}),
	}
}

// requestEncoders make the frames of requests to clients.
func requestEncoders() map[string]func(f frame.Format) []byte {
	request := func(r frame.Request) func(frame.Format) []byte {
		r.ID, r.Subject, r.Deadline = "q0Xm1Vn7Rk2ZbYt8aWcD4g", "orders.post.7", time.Date(2026, 11, 21, 0, 0, 5, 123e6, time.UTC)
		return func(f frame.Format) []byte { return frame.AppendRequest(nil, f, &r) }
	}
	return map[string]func(f frame.Format) []byte{
		"request": request(frame.Request{}),
		"request of HTTP": request(frame.Request{
			Method: "POST", Path: "/7/a%2Fb", Query: "q=1&q=2", Headers: frame.Headers{"Accept": {"*/*"}, "Link": {"</a>", "</b>"}},
			ContentType: "application/json", Data: []byte(`{"n":7}`),
		}),
		"request with text":              request(frame.Request{ContentType: "text/plain; charset=utf-8", Data: []byte("two\nlines ☂")}),
		"request with bytes":             request(frame.Request{ContentType: "image/png", Data: []byte{0, 255, 128, 10}}),
		"request with JSON that is none": request(frame.Request{ContentType: "application/json", Data: []byte(`{"n":`)}),
	}
}

func sameJSON(t *testing.T, got, want []byte) {
	t.Helper()
	var g, w any
	if err := json.Unmarshal(got, &g); err != nil {
		t.Fatalf("%s: %v", got, err)
	}
	if err := json.Unmarshal(want, &w); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(g, w) {
		t.Errorf("JSON\n got %s\nwant %s", got, want)
	}
}

func sameProto(t *testing.T, got, want []byte) {
	t.Helper()
	var g, w godwitpb.ServerFrame
	if err := proto.Unmarshal(got, &g); err != nil {
		t.Fatalf("%s: %v", base64.StdEncoding.EncodeToString(got), err)
	}
	if err := proto.Unmarshal(want, &w); err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(&g, &w) {
		t.Errorf("protobuf\n got %v\nwant %v", &g, &w)
	}
}

// topicEncoders make the frames of topics.
func topicEncoders() map[string]func(f frame.Format) []byte {
	message := func(contentType, data string) func(frame.Format) []byte {
		return func(f frame.Format) []byte {
			return frame.EncodeMessage(f, &frame.Message{Topic: "rides.oslo", ContentType: contentType, Data: []byte(data)})
		}
	}
	return map[string]func(f frame.Format) []byte{
		"message with JSON":                 message("application/json", `{"fare":120}`),
		"message with text":                 message("text/plain", "two\nlines ☂"),
		"message with bytes":                message("application/octet-stream", "\x00\xff\x80\n"),
		"message that is no JSON after all": message("application/json", `{"fare":`),
		"message without data":              message("", ""),
		"gap":                               func(f frame.Format) []byte { return frame.AppendGap(nil, f, 3) },
		"error that names what was refused": func(f frame.Format) []byte {
			return frame.AppendError(nil, f, &frame.Error{
				Code: "forbidden", Message: "subscribe: your credential does not allow rides.>", Field: "topics", Refused: []string{"rides.>"},
			})
		},
	}
}
