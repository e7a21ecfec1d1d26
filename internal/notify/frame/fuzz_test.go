package frame

import (
	"errors"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"godwit.dev/godwit/api/godwitpb"
)

func FuzzDecodeJSON(f *testing.F) {
	for _, s := range []string{
		`{"hello":{"app":"demo","recipient":"driver-42","window":8,"heartbeat":"30s","held":["a"]}}`,
		`{"ack":{"ids":["ride-1","ride-2"]}}`, ` { "ack" : { "ids" : [ "a" ] } } `, `{"ack":{"ids":["\u0061"]}}`,
		`{"nack":{"ids":["a"],"after":"30s","reason":"x"}}`, `{"ping":{"digest":"0000000000000000"}}`,
		`{"register":{"objects":["a"],"reset":true,"more":true,"group":"g"}}`, `{"unregister":{"objects":["a"]}}`,
		`{"object_ack":{"object":"a","version":"7"}}`,
		`{"subscribe":{"topics":["rides.*","rides.oslo.>"],"queue":"q"}}`, `{"unsubscribe":{"topics":["a..b"]}}`, `{"serve":{"subjects":["orders.>"],"queue":"orders"}}`,
		`{"reply":{"request_id":"r","status":201,"headers":{"A":"b","Set-Cookie":["x","y"]},"data":{"x":1}}}`,
		`{"reply":{"id":"ride-1","content_type":"text/plain","data":"yes"}}`, `{"reply":{"id":"a","data_base64":"AP8="}}`,
		`{"ack":{"ids":["a"],"ids":["b"]}}`, `{"ack":{"ids":[]}}`, `{}`, `[`, "{\"\xff\":{}}",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var quick, general Client
		err, generalErr := DecodeJSON(b, &quick), decodeJSON(b, &general)
		typed(t, err)
		if (err == nil) != (generalErr == nil) {
			t.Fatalf("%q: the quick decoder says %v, the general one %v", b, err, generalErr)
		}
		if err == nil && (quick.Kind != general.Kind || !slices.EqualFunc(quick.IDs, general.IDs, slices.Equal[[]byte])) {
			t.Fatalf("%q: the quick decoder reads %+v, the general one %+v", b, quick, general)
		}
	})
}

func FuzzDecodeProto(f *testing.F) {
	for _, m := range []any{
		&godwitpb.Hello{App: "demo", Token: "t", Held: []string{"a"}, Window: 8, HeartbeatMs: 30_000},
		&godwitpb.Ack{Ids: []string{"a", "b"}}, &godwitpb.Nack{Ids: []string{"a"}, AfterMs: 5},
		&godwitpb.Register{Objects: []string{"a", "b"}, Group: "g", Reset_: true, More: true},
		&godwitpb.ObjectAck{Object: "a", Group: "g", Version: 7},
		&godwitpb.Ping{Digest: EmptyDigest}, &godwitpb.Serve{Subjects: []string{"x"}, Queue: "q"},
		&godwitpb.Reply{
			RequestId: "r", Status: 201, Headers: map[string]string{"A": "b"}, Data: []byte("x"), ContentType: "text/plain",
			HeaderFields: []*godwitpb.HeaderField{{Name: "Set-Cookie", Value: "x"}, {Name: "Set-Cookie", Value: "y"}},
		},
	} {
		f.Add(client(m))
	}
	f.Add([]byte{0x12, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		var c Client
		err := DecodeProto(b, &c)
		typed(t, err)
		var want godwitpb.ClientFrame
		if err != nil {
			return
		}
		if err := proto.Unmarshal(b, &want); err != nil {
			t.Fatalf("%x is accepted although it is no ClientFrame: %v", b, err)
		}
		ids := asTexts(c.IDs)
		switch c.Kind {
		case KindRegister:
			if r := want.GetRegister(); string(c.Group) != r.GetGroup() || len(c.Objects) != len(r.GetObjects()) || c.Reset != r.GetReset_() || c.More != r.GetMore() {
				t.Fatalf("%x: register %+v, want %v", b, c, r)
			}
		case KindSubscribe:
			if s := want.GetSubscribe(); string(c.Queue) != s.GetQueue() || !slices.Equal(asTexts(c.Patterns), s.GetTopics()) {
				t.Fatalf("%x: subscribe %+v, want %v", b, c, s)
			}
		case KindObjectAck:
			if a := want.GetObjectAck(); string(c.Object) != a.GetObject() || int64(c.Version) != a.GetVersion() {
				t.Fatalf("%x: object_ack %+v, want %v", b, c, a)
			}
		case KindServe:
			if len(c.Patterns) != len(want.GetServe().GetSubjects()) || string(c.Queue) != want.GetServe().GetQueue() {
				t.Fatalf("%x: serve %q of %q, want %v", b, c.Patterns, c.Queue, want.GetServe())
			}
		case KindReply:
			r := want.GetReply()
			if string(c.Reply.RequestID) != r.GetRequestId() || string(c.Reply.ID) != r.GetId() || string(c.Reply.Data) != string(r.GetData()) {
				t.Fatalf("%x: reply %+v, want %v", b, c.Reply, r)
			}
			for _, f := range r.GetHeaderFields() {
				if !slices.Contains(c.Reply.Headers[f.GetName()], f.GetValue()) {
					t.Fatalf("%x: headers %v, want %v", b, c.Reply.Headers, r)
				}
			}
		case KindAck:
			if !slices.Equal(ids, want.GetAck().GetIds()) {
				t.Fatalf("%x: ack of %q, want %q", b, ids, want.GetAck().GetIds())
			}
		case KindHello:
			if h := want.GetHello(); h.GetApp() != c.Hello.App || h.GetToken() != c.Hello.Token || !slices.Equal(h.GetHeld(), c.Hello.Held) {
				t.Fatalf("%x: hello %+v, want %v", b, c.Hello, h)
			}
		}
	})
}

func asTexts(list [][]byte) (s []string) {
	for _, b := range list {
		s = append(s, string(b))
	}
	return s
}

// typed checks that a refusal is an *Error with a code and a text.
func typed(t *testing.T, err error) {
	t.Helper()
	var e *Error
	if err != nil && (!errors.As(err, &e) || e.Code == "" || e.Message == "") {
		t.Fatalf("refused with %#v, want a complete *Error", err)
	}
}
