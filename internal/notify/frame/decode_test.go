package frame

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"godwit.dev/godwit/api/godwitpb"
)

func TestJSONFramesAreRead(t *testing.T) {
	var c Client
	must := func(text string) *Client {
		t.Helper()
		if err := DecodeJSON([]byte(text), &c); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		return &c
	}
	must(`{"hello":{"app":"demo","token":"t.o-k","recipient":"driver-42","group":"north","device":"tab",
		"digest":"00000000000000ff","held":["a","b"],"window":8,"heartbeat":"1m","observe":true}}`)
	want := Hello{
		App: "demo", Token: "t.o-k", Recipient: "driver-42", Group: "north", Device: "tab", Digest: "00000000000000ff",
		Held: []string{"a", "b"}, Window: 8, Heartbeat: time.Minute, Observe: true,
	}
	if got := fmt.Sprintf("%+v", *c.Hello); got != fmt.Sprintf("%+v", want) {
		t.Errorf("hello is %s, want %+v", got, want)
	}
	if must(`{"hello":{}}`); c.Kind != KindHello || fmt.Sprint(*c.Hello) != fmt.Sprint(Hello{}) {
		t.Errorf("empty hello is %+v", c.Hello)
	}
	if must(`{"hello":{"window":1024}}`); c.Hello.Window != MaxWindow {
		t.Errorf("the widest window is %d", c.Hello.Window)
	}
	if must(`{"hello":{"heartbeat":7,"group":null}}`); c.Hello.Heartbeat != 7*time.Second {
		t.Errorf("heartbeat 7 is %s, want 7s", c.Hello.Heartbeat)
	}
	if must(`{"ack":{"ids":["ride-1","ride-2"]}}`); c.Kind != KindAck || ids(&c) != "ride-1 ride-2" {
		t.Errorf("ack is %+v", c)
	}
	if must(" {\n\"ack\" : {\t\"ids\":[ \"ride-1\" , \"ride-2\" ] } }\r\n"); ids(&c) != "ride-1 ride-2" {
		t.Errorf("spaced ack is %+v", c)
	}
	if must(`{"ack":{"ids":["\u0072ide-1"]}}`); ids(&c) != "ride-1" {
		t.Errorf("escaped ack is %q", ids(&c))
	}
	if must(`{"nack":{"ids":["a"],"after":"7d","reason":"busy"}}`); c.Kind != KindNack || c.After != 7*24*time.Hour || string(c.Reason) != "busy" {
		t.Errorf("nack is %+v", c)
	}
	if must(`{"ping":{}}`); c.Kind != KindPing || c.IDs == nil || len(c.IDs) != 0 || c.After != 0 {
		t.Errorf("ping after nack is %+v", c)
	}
	if must(`{"ping":{"digest":"0123456789abcdef"}}`); string(c.Digest) != "0123456789abcdef" {
		t.Errorf("ping is %+v", c)
	}
}

func ids(c *Client) string {
	var s []string
	for _, id := range c.IDs {
		s = append(s, string(id))
	}
	return strings.Join(s, " ")
}

func list(n int) string { return strings.TrimSuffix(strings.Repeat(`"a",`, n), ",") }

func TestBadJSONFramesAreRefusedByName(t *testing.T) {
	long := strings.Repeat("x", 129)
	for _, c := range []struct{ in, code, field, says string }{
		{``, CodeBadFrame, "", "cut short"},
		{`{`, CodeBadFrame, "", "cut short"},
		{`[]`, CodeBadFrame, "", "one JSON object"},
		{`null`, CodeBadFrame, "", "one JSON object"},
		{`{}`, CodeBadFrame, "", "exactly one key"},
		{`{"ack":{"ids":["a"]},"ping":{}}`, CodeBadFrame, "", "exactly one key"},
		{`{"ping":{},"ping":{}}`, CodeBadFrame, "", "twice"},
		{`{"ping":{}} {}`, CodeBadFrame, "", "follows"},
		{`{"ping":{}}x`, CodeBadFrame, "", ""},
		{`{"Ack":{"ids":["a"]}}`, CodeBadFrame, "", `"Ack"`},
		{`{"explode":{}}`, CodeBadFrame, "", `"explode"`},
		{`{"":{}}`, CodeBadFrame, "", `""`},
		{`{"ack":["a"]}`, CodeBadFrame, "", "ack must be a JSON object"},
		{`{"ack":null}`, CodeBadFrame, "", "ack must be a JSON object"},
		{`{"ack":{"ids":["a"],"id":"b"}}`, CodeBadFrame, "id", `"id"`},
		{`{"ack":{"IDS":["a"]}}`, CodeBadFrame, "IDS", `"IDS"`},
		{`{"ack":{"ids":["a"],"ids":["b"]}}`, CodeBadFrame, "", "twice"},
		{"{\"hello\":{\"app\":\"\xff\"}}", CodeBadFrame, "", "UTF-8"},
		{`{"ack":{}}`, CodeBadField, "ids", "required"},
		{`{"ack":{"ids":null}}`, CodeBadField, "ids", "required"},
		{`{"ack":{"ids":[]}}`, CodeBadField, "ids", "required"},
		{`{"ack":{"ids":"a"}}`, CodeBadField, "ids", "list of strings"},
		{`{"ack":{"ids":[1]}}`, CodeBadField, "ids", "list of strings"},
		{`{"ack":{"ids":["a",""]}}`, CodeBadField, "ids", "required"},
		{`{"ack":{"ids":["a b"]}}`, CodeBadField, "ids", `' '`},
		{`{"ack":{"ids":["."]}}`, CodeBadField, "ids", "another path"},
		{`{"nack":{"ids":["a",".."]}}`, CodeBadField, "ids", "another path"},
		{`{"hello":{"recipient":".."}}`, CodeBadField, "recipient", "another path"},
		{`{"hello":{"device":"."}}`, CodeBadField, "device", "another path"},
		{`{"hello":{"group":".."}}`, CodeBadField, "group", "another path"},
		{`{"register":{"objects":[".."]}}`, CodeBadField, "objects", "another path"},
		{`{"ack":{"ids":["` + long + `"]}}`, CodeBadField, "ids", "129 bytes"},
		{`{"ack":{"ids":[` + list(1001) + `]}}`, CodeBadField, "ids", "1000"},
		{`{"nack":{"ids":["a"],"after":"-1s"}}`, CodeBadField, "after", "duration"},
		{`{"nack":{"ids":["a"],"after":"31d"}}`, CodeBadField, "after", "30 days"},
		{`{"nack":{"ids":["a"],"after":1.5}}`, CodeBadField, "after", "whole seconds"},
		{`{"nack":{"ids":["a"],"reason":7}}`, CodeBadField, "reason", "string"},
		{`{"nack":{"ids":["a"],"reason":"` + strings.Repeat("x", 1001) + `"}}`, CodeBadField, "reason", "1000"},
		{`{"hello":{"app":"a/b"}}`, CodeBadField, "app", `'/'`},
		{`{"hello":{"recipient":"` + long + `"}}`, CodeBadField, "recipient", "129 bytes"},
		{`{"hello":{"group":7}}`, CodeBadField, "group", "string"},
		{`{"hello":{"device":"é"}}`, CodeBadField, "device", "byte 1"},
		{`{"hello":{"token":"` + strings.Repeat("x", 8193) + `"}}`, CodeBadField, "token", "8192"},
		{`{"hello":{"digest":"xyz"}}`, CodeBadField, "digest", "16 hex"},
		{`{"hello":{"held":[` + list(1001) + `]}}`, CodeBadField, "held", "1000"},
		{`{"hello":{"held":["a b"]}}`, CodeBadField, "held", `' '`},
		{`{"hello":{"window":0}}`, CodeBadField, "window", "1024"},
		{`{"hello":{"window":-1}}`, CodeBadField, "window", "1024"},
		{`{"hello":{"window":1025}}`, CodeBadField, "window", "1024"},
		{`{"hello":{"window":"8"}}`, CodeBadField, "window", "whole number"},
		{`{"hello":{"observe":"yes"}}`, CodeBadField, "observe", "true or false"},
		{`{"hello":{"heartbeat":"soon"}}`, CodeBadField, "heartbeat", "duration"},
		{`{"hello":{"heartbeat":-5}}`, CodeBadField, "heartbeat", "duration"},
		{`{"ping":{"digest":"0123456789ABCDEF"}}`, CodeBadField, "digest", "lower case"},
		{`{"register":{"objects":[]}}`, CodeBadField, "objects", "required"},
		{`{"register":{"objects":["a b"]}}`, CodeBadField, "objects", `' '`},
		{`{"register":{"objects":["a"],"group":"a/b"}}`, CodeBadField, "group", `'/'`},
		{`{"register":{"objects":["a"],"reset":1}}`, CodeBadField, "reset", "true or false"},
		{`{"register":{"objects":[` + list(1001) + `]}}`, CodeBadField, "objects", "1000"},
		{`{"register":{"objects":"camera-config"}}`, CodeBadField, "objects", "list"},
		{`{"register":{"object":"camera-config"}}`, CodeBadFrame, "object", `"object"`},
		{`{"unregister":{"objects":["a"],"reset":true}}`, CodeBadFrame, "reset", `"reset"`},
		{`{"object_ack":{"version":"7"}}`, CodeBadField, "object", "required"},
		{`{"object_ack":{"object":"x","version":"-7"}}`, CodeBadField, "version", "2^63-1"},
		{`{"object_ack":{"object":"x"}}`, CodeBadField, "version", "2^63-1"},
		{`{"object_ack":{"object":"x","version":0}}`, CodeBadField, "version", "2^63-1"},
	} {
		var into Client
		err := DecodeJSON([]byte(c.in), &into)
		checkError(t, fmt.Sprintf("%.80s", c.in), err, c.code, c.field, c.says)
	}
}

func checkError(t *testing.T, in string, err error, code, field, says string) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Errorf("%s: accepted (%v), want %s", in, err, code)
		return
	}
	if e.Code != code || e.Field != field || !strings.Contains(e.Message, says) {
		t.Errorf("%s: got %s of %q: %s; want %s of %q saying %q", in, e.Code, e.Field, e.Message, code, field, says)
	}
}

func client(f any) []byte {
	m := &godwitpb.ClientFrame{}
	switch f := f.(type) {
	case *godwitpb.Hello:
		m.Frame = &godwitpb.ClientFrame_Hello{Hello: f}
	case *godwitpb.Ack:
		m.Frame = &godwitpb.ClientFrame_Ack{Ack: f}
	case *godwitpb.Nack:
		m.Frame = &godwitpb.ClientFrame_Nack{Nack: f}
	case *godwitpb.Ping:
		m.Frame = &godwitpb.ClientFrame_Ping{Ping: f}
	case *godwitpb.Subscribe:
		m.Frame = &godwitpb.ClientFrame_Subscribe{Subscribe: f}
	case *godwitpb.Serve:
		m.Frame = &godwitpb.ClientFrame_Serve{Serve: f}
	case *godwitpb.Reply:
		m.Frame = &godwitpb.ClientFrame_Reply{Reply: f}
	case *godwitpb.Register:
		m.Frame = &godwitpb.ClientFrame_Register{Register: f}
	case *godwitpb.ObjectAck:
		m.Frame = &godwitpb.ClientFrame_ObjectAck{ObjectAck: f}
	}
	b, err := proto.Marshal(m)
	if err != nil {
		panic(err)
	}
	return b
}

func TestProtoFramesAreRead(t *testing.T) {
	var c Client
	must := func(b []byte) {
		t.Helper()
		if err := DecodeProto(b, &c); err != nil {
			t.Fatal(err)
		}
	}
	must(client(&godwitpb.Hello{
		App: "demo", Token: "tok", Recipient: "driver-42", Group: "north", Device: "tab", Digest: "00000000000000ff",
		Held: []string{"a", "b"}, Window: 8, HeartbeatMs: 60_000, Observe: true,
	}))
	want := Hello{
		App: "demo", Token: "tok", Recipient: "driver-42", Group: "north", Device: "tab", Digest: "00000000000000ff",
		Held: []string{"a", "b"}, Window: 8, Heartbeat: time.Minute, Observe: true,
	}
	if got := fmt.Sprintf("%+v", *c.Hello); got != fmt.Sprintf("%+v", want) {
		t.Errorf("hello is %s, want %+v", got, want)
	}
	if must(client(&godwitpb.Hello{})); c.Kind != KindHello || c.Hello.Window != 0 {
		t.Errorf("empty hello is %+v", c)
	}
	if must(client(&godwitpb.Ack{Ids: []string{"x", "y"}})); c.Kind != KindAck || ids(&c) != "x y" {
		t.Errorf("ack is %+v", c)
	}
	if must(client(&godwitpb.Nack{Ids: []string{"x"}, AfterMs: 1500, Reason: "busy"})); c.After != 1500*time.Millisecond || string(c.Reason) != "busy" {
		t.Errorf("nack is %+v", c)
	}
	if must(client(&godwitpb.Ping{Digest: EmptyDigest})); c.Kind != KindPing || string(c.Digest) != EmptyDigest {
		t.Errorf("ping is %+v", c)
	}
}

func TestProtoUnknownFieldsAreIgnoredAndTheLastFrameWins(t *testing.T) {
	var c Client
	unknown := []byte{0xf8, 0x07, 0x01} // field 127, varint
	b := append(append(unknown, client(&godwitpb.Ping{})...), client(&godwitpb.Ack{Ids: []string{"x"}})...)
	if err := DecodeProto(b, &c); err != nil || c.Kind != KindAck || ids(&c) != "x" {
		t.Errorf("got %+v, %v; want the ack", c, err)
	}
	b = append(client(&godwitpb.Ack{Ids: []string{"x"}}), client(&godwitpb.Ack{Ids: []string{"y"}})...)
	if err := DecodeProto(b, &c); err != nil || ids(&c) != "x y" {
		t.Errorf("got %+v, %v; want both acks merged", c, err)
	}
	if err := DecodeProto(unknown, &c); err != nil || c.Kind != 0 {
		t.Errorf("a frame of unknown fields is %+v, %v; want kind 0", c, err)
	}
}

func TestBadProtoFramesAreRefusedByName(t *testing.T) {
	many := make([]string, 1001)
	for i := range many {
		many[i] = "a"
	}
	for _, c := range []struct {
		in                []byte
		code, field, says string
	}{
		{[]byte{0x12, 0xff}, CodeBadFrame, "", "protobuf"},
		{[]byte{0x12, 0x03, 0x0a, 0x09, 'x'}, CodeBadFrame, "", "protobuf"},
		{client(&godwitpb.Ack{}), CodeBadField, "ids", "required"},
		{client(&godwitpb.Ack{Ids: []string{""}}), CodeBadField, "ids", "required"},
		{client(&godwitpb.Ack{Ids: many}), CodeBadField, "ids", "1000"},
		{client(&godwitpb.Ack{Ids: []string{"a b"}}), CodeBadField, "ids", `' '`},
		{client(&godwitpb.Nack{Ids: []string{"a"}, AfterMs: -1}), CodeBadField, "after", "between"},
		{client(&godwitpb.Hello{Held: many}), CodeBadField, "held", "1000"},
		{client(&godwitpb.Hello{Window: 1025}), CodeBadField, "window", "1024"},
		{client(&godwitpb.Hello{HeartbeatMs: -1 << 63}), CodeBadField, "heartbeat", "negative"},
		{[]byte{0x0a, 0x03, 0x12, 0x01, 0xff}, CodeBadField, "token", "UTF-8"},
		{client(&godwitpb.Register{Objects: many}), CodeBadField, "objects", "1000"},
		{client(&godwitpb.Register{}), CodeBadField, "objects", "required"},
		{client(&godwitpb.ObjectAck{Object: "x"}), CodeBadField, "version", "2^63-1"},
		{client(&godwitpb.ObjectAck{Object: "x", Version: -1}), CodeBadField, "version", "2^63-1"},
		{[]byte{0x22, 0x03, 0x0a, 0x01, 0xff}, CodeBadField, "objects", "UTF-8"},
	} {
		var into Client
		checkError(t, fmt.Sprintf("%.40q", c.in), DecodeProto(c.in, &into), c.code, c.field, c.says)
	}
}

func TestAnAckIsDecodedWithoutAllocation(t *testing.T) {
	inJSON := []byte(`{"ack":{"ids":["01JZZZZZZZZZZZZZZZZZZZZZZZ","ride-2"]}}`)
	inProto := client(&godwitpb.Ack{Ids: []string{"01JZZZZZZZZZZZZZZZZZZZZZZZ", "ride-2"}})
	c := Client{IDs: make([][]byte, 0, 4)}
	for name, decode := range map[string]func() error{
		"JSON":  func() error { return DecodeJSON(inJSON, &c) },
		"proto": func() error { return DecodeProto(inProto, &c) },
	} {
		if n := testing.AllocsPerRun(100, func() {
			if decode() != nil {
				t.Fatal("refused")
			}
		}); n != 0 {
			t.Errorf("%s ack takes %v allocations, want none", name, n)
		}
	}
}

func BenchmarkDecodeAckJSON(b *testing.B) {
	in := []byte(`{"ack":{"ids":["01JZZZZZZZZZZZZZZZZZZZZZZZ"]}}`)
	var c Client
	b.ReportAllocs()
	for b.Loop() {
		if err := DecodeJSON(in, &c); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeAckProto(b *testing.B) {
	in := client(&godwitpb.Ack{Ids: []string{"01JZZZZZZZZZZZZZZZZZZZZZZZ"}})
	var c Client
	b.ReportAllocs()
	for b.Loop() {
		if err := DecodeProto(in, &c); err != nil {
			b.Fatal(err)
		}
	}
}
