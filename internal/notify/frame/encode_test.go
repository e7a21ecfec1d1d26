package frame

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"godwit.dev/godwit/api/godwitpb"
	"godwit.dev/godwit/internal/notify/notification"
)

var at = time.Date(2026, 3, 1, 12, 0, 0, 123_456_789, time.FixedZone("x", 3600))

func note(data, contentType string) *notification.Notification {
	return &notification.Notification{
		App: "demo", ID: "ride-1", Priority: notification.High, CreatedAt: at, ExpiresAt: at.Add(time.Hour),
		Content: notification.Content{Title: "New \"ride\"\n", Body: "2.1 km \\ away \u2028 €😀\x01", Category: "RIDE", Data: []byte(data), ContentType: contentType},
	}
}

func whole(n *notification.Notification, f Format) []byte {
	tail := NotificationTail(n, f)
	return append(AppendNotificationHead(nil, f, 7, 2, len(tail)), tail...)
}

// jsonNote is a notification in the form that a client parses.
type jsonNote struct {
	Seq         uint64          `json:"seq"`
	Attempt     uint32          `json:"attempt"`
	ID          string          `json:"id"`
	Title       string          `json:"title"`
	Body        string          `json:"body"`
	Category    string          `json:"category"`
	Data        json.RawMessage `json:"data"`
	DataBase64  string          `json:"data_base64"`
	ContentType string          `json:"content_type"`
	Priority    string          `json:"priority"`
	CreatedAt   string          `json:"created_at"`
	ExpiresAt   string          `json:"expires_at"`
}

func readJSON(t *testing.T, b []byte, into any) {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil || dec.More() {
		t.Fatalf("%s is not one complete JSON frame: %v", b, err)
	}
}

// sse takes one event apart.
func sse(t *testing.T, b []byte) (event, id, data string) {
	t.Helper()
	body, ok := strings.CutSuffix(string(b), "\n\n")
	if !ok || strings.Contains(body, "\n\n") || strings.Contains(body, "\r") {
		t.Fatalf("%q is not one event", b)
	}
	for line := range strings.SplitSeq(body, "\n") {
		name, value, _ := strings.Cut(line, ": ")
		switch name {
		case "event":
			event = value
		case "id":
			id = value
		case "data":
			data += value
		case "retry":
			if _, err := strconv.ParseUint(value, 10, 64); err != nil {
				t.Fatalf("browsers ignore %q", line)
			}
		default:
			t.Fatalf("unexpected line %q in %q", line, b)
		}
	}
	return event, id, data
}

func TestANotificationReadsTheSameInEveryFormat(t *testing.T) {
	for _, c := range []struct{ name, data, contentType, wantData, wantBase64, wantType string }{
		{"none", "", "", "", "", ""},
		{"json", "{\"fare\":120,\r\n \"x\":\"a\\nb\"}", "application/json", "{\"fare\":120,   \"x\":\"a\\nb\"}", "", ""},
		{"other json", `[1]`, "application/geo+json", `[1]`, "", "application/geo+json"},
		{"json with charset", `[1]`, "application/json; charset=utf-8", `[1]`, "", "application/json; charset=utf-8"},
		{"text", "a\nb\x00", "text/plain", `"a\nb\u0000"`, "", "text/plain"},
		{"bytes", "\xff\x00", "application/octet-stream", "", "/wA=", "application/octet-stream"},
		{"json that is not UTF-8", "\"\xff\"", "application/json", "", base64.StdEncoding.EncodeToString([]byte("\"\xff\"")), "application/json"},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := note(c.data, c.contentType)
			want := jsonNote{
				Seq: 7, Attempt: 2, ID: n.ID, Title: n.Content.Title, Body: n.Content.Body, Category: n.Content.Category,
				Data: json.RawMessage(c.wantData), DataBase64: c.wantBase64, ContentType: c.wantType, Priority: "high",
				CreatedAt: "2026-03-01T11:00:00.123Z", ExpiresAt: "2026-03-01T12:00:00.123Z",
			}
			var frame struct {
				Notification jsonNote `json:"notification"`
			}
			readJSON(t, whole(n, JSON), &frame)
			if got := fmt.Sprintf("%+v", frame.Notification); got != fmt.Sprintf("%+v", want) {
				t.Errorf("JSON says\n%s, want\n%+v", got, want)
			}
			event, id, data := sse(t, whole(n, SSE))
			var inner jsonNote
			readJSON(t, []byte(data), &inner)
			if event != "notification" || id != "7" || fmt.Sprintf("%+v", inner) != fmt.Sprintf("%+v", want) {
				t.Errorf("SSE says %s %s\n%+v, want\n%+v", event, id, inner, want)
			}
			var got godwitpb.ServerFrame
			if err := proto.Unmarshal(whole(n, Proto), &got); err != nil {
				t.Fatal(err)
			}
			wantPB := &godwitpb.Notification{
				Seq: 7, Attempt: 2, Id: n.ID, Title: n.Content.Title, Body: n.Content.Body, Category: n.Content.Category,
				Data: []byte(c.data), ContentType: c.contentType, Priority: godwitpb.Priority_PRIORITY_HIGH,
				CreatedAtMs: at.UnixMilli(), ExpiresAtMs: at.Add(time.Hour).UnixMilli(),
			}
			if c.data == "" {
				wantPB.Data = nil
			}
			if !proto.Equal(got.GetNotification(), wantPB) {
				t.Errorf("protobuf says\n%v, want\n%v", got.GetNotification(), wantPB)
			}
		})
	}
}

func TestPrioritiesHaveTheNumbersOfTheContract(t *testing.T) {
	for p, want := range map[notification.Priority]godwitpb.Priority{
		notification.High: godwitpb.Priority_PRIORITY_HIGH, notification.Normal: godwitpb.Priority_PRIORITY_NORMAL,
		notification.Low: godwitpb.Priority_PRIORITY_LOW,
	} {
		if got := protoPriority(p); got != int64(want) {
			t.Errorf("%s is %d, want %d", p, got, want)
		}
	}
}

func TestTheTailIsEncodedOnce(t *testing.T) {
	n := note("{}", "application/json")
	for _, f := range []Format{JSON, Proto, SSE} {
		if a, b := NotificationTail(n, f), NotificationTail(n, f); &a[0] != &b[0] {
			t.Errorf("format %s is encoded again for the second receiver", f)
		}
		if n := testing.AllocsPerRun(10, func() { NotificationTail(n, f) }); n > 0 {
			t.Errorf("format %s takes %.0f allocations for each receiver", f, n)
		}
	}
}

func TestServerFramesReadTheSameInEveryFormat(t *testing.T) {
	odd := "say \"hi\"\r\n\x7f €"
	for _, c := range []struct {
		name   string
		append func(f Format) []byte
		json   string
		proto  *godwitpb.ServerFrame
	}{
		{
			"welcome", func(f Format) []byte {
				return AppendWelcome(nil, f, &Welcome{
					Session: "s", App: "demo", Recipient: "driver-42", Heartbeat: 30 * time.Second, Digest: EmptyDigest, ServerTime: at,
				})
			},
			`{"session":"s","app":"demo","recipient":"driver-42","heartbeat":"30s","digest":"0000000000000000","registrations":0,"server_time":"2026-03-01T11:00:00.123Z"}`,
			&godwitpb.ServerFrame{Frame: &godwitpb.ServerFrame_Welcome{Welcome: &godwitpb.Welcome{
				Session: "s", App: "demo", Recipient: "driver-42", HeartbeatMs: 30_000, Digest: EmptyDigest, ServerTimeMs: at.UnixMilli(),
			}}},
		},
		{
			"recall", func(f Format) []byte { return AppendRecall(nil, f, []string{"a", "b"}) }, `{"ids":["a","b"]}`,
			&godwitpb.ServerFrame{Frame: &godwitpb.ServerFrame_Recall{Recall: &godwitpb.Recall{Ids: []string{"a", "b"}}}},
		},
		{
			"pong", func(f Format) []byte { return AppendPong(nil, f, "") }, `{}`,
			&godwitpb.ServerFrame{Frame: &godwitpb.ServerFrame_Pong{Pong: &godwitpb.Pong{}}},
		},
		{
			"pong", func(f Format) []byte { return AppendPong(nil, f, EmptyDigest) }, `{"digest":"0000000000000000"}`,
			&godwitpb.ServerFrame{Frame: &godwitpb.ServerFrame_Pong{Pong: &godwitpb.Pong{Digest: EmptyDigest}}},
		},
		{
			"goodbye", func(f Format) []byte {
				return AppendGoodbye(nil, f, Goodbye{Reason: "shutdown", RetryAfter: 1500 * time.Millisecond})
			},
			`{"reason":"shutdown","retry_after":"1500ms"}`,
			&godwitpb.ServerFrame{Frame: &godwitpb.ServerFrame_Goodbye{Goodbye: &godwitpb.Goodbye{Reason: "shutdown", RetryAfterMs: 1500}}},
		},
		{
			"error", func(f Format) []byte {
				return AppendError(nil, f, &Error{Code: CodeBadField, Message: odd, Field: "ids"})
			},
			`{"code":"bad_field","message":"say \"hi\"\r\n` + "\x7f" + ` €","field":"ids"}`,
			&godwitpb.ServerFrame{Frame: &godwitpb.ServerFrame_Error{Error: &godwitpb.Error{Code: CodeBadField, Message: odd, Field: "ids"}}},
		},
	} {
		if got, want := string(c.append(JSON)), `{"`+c.name+`":`+c.json+`}`; got != want || !json.Valid([]byte(got)) {
			t.Errorf("JSON %s is\n%s, want\n%s", c.name, got, want)
		}
		if event, id, data := sse(t, c.append(SSE)); event != c.name || id != "" || data != c.json {
			t.Errorf("SSE %s is %q %q\n%s, want\n%s", c.name, event, id, data, c.json)
		}
		var got godwitpb.ServerFrame
		if err := proto.Unmarshal(c.append(Proto), &got); err != nil || !proto.Equal(&got, c.proto) {
			t.Errorf("protobuf %s is %v (%v), want %v", c.name, &got, err, c.proto)
		}
	}
}

func TestDurationsUseTheLargestWholeUnit(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", time.Second: "1s", 90 * time.Second: "90s", 5 * time.Minute: "5m", 24 * time.Hour: "24h",
		1500 * time.Millisecond: "1500ms",
	} {
		got := string(appendDuration(nil, d))
		back, err := notification.ParseDuration(strings.Trim(got, `"`))
		if got != `"`+want+`"` || err != nil || back != d {
			t.Errorf("%s is written %s (%v), want %q", d, got, err, want)
		}
	}
}

func FuzzString(f *testing.F) {
	for _, s := range []string{"", "plain", "\"\\\n\r\t\x00\x1f\x7f", "€😀\u2028\u2029", "\xff\xc3(\xed\xa0\x80", "a\xf0\x9f"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		b := appendString(nil, s)
		var got string
		if err := json.Unmarshal(b, &got); err != nil || got != string([]rune(s)) {
			t.Fatalf("%q is written %s and read back %q (%v)", s, b, got, err)
		}
		if bytes.ContainsAny(b, "\r\n\u2028\u2029") {
			t.Fatalf("%q is written with a line end: %q", s, b)
		}
		if string(appendString(nil, []byte(s))) != string(b) {
			t.Fatalf("%q is written differently as bytes", s)
		}
	})
}

func BenchmarkNotificationHead(b *testing.B) {
	for name, f := range map[string]Format{"JSON": JSON, "Proto": Proto, "SSE": SSE} {
		b.Run(name, func(b *testing.B) {
			dst := make([]byte, 0, 128)
			b.ReportAllocs()
			for b.Loop() {
				dst = AppendNotificationHead(dst[:0], f, 123456, 1, 4096)
			}
		})
	}
}

func BenchmarkNotificationTail(b *testing.B) {
	data, _ := json.Marshal(map[string]string{"text": strings.Repeat("ride ", 800)})
	n := note(string(data), "application/json")
	for name, encode := range map[string]func(*notification.Notification) []byte{"JSON": textEncoding{}.NotificationTail, "Proto": protoEncoding{}.NotificationTail, "SSE": textEncoding{events: true}.NotificationTail} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				encode(n)
			}
		})
	}
}
