package frame

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"godwit.dev/godwit/api/nammayatripb"
	"godwit.dev/godwit/internal/notify/notification"
)

func payload(t testing.TB, id string, c notification.Content, d PayloadData) *notification.Notification {
	t.Helper()
	data, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	c.Data = data
	return &notification.Notification{ID: id, Content: c}
}

func TestPayloadIsWhatTheServicesClientsDecode(t *testing.T) {
	for name, c := range map[string]struct {
		content notification.Content
		data    PayloadData
	}{
		"whole": {
			notification.Content{Category: "NEW_RIDE_AVAILABLE", Title: "Ride", Body: "2 km"},
			PayloadData{Show: "SHOW", Entity: PayloadEntity{ID: "e-1", Type: "SearchRequest", Data: `{"fare":"₹120","to":"a \"b\""}`}},
		},
		"long":    {notification.Content{Title: "Ride"}, PayloadData{Show: "DO_NOT_SHOW", Entity: PayloadEntity{Data: `"` + strings.Repeat("x", 5000) + `"`}}},
		"nothing": {},
	} {
		n := payload(t, "ride-1", c.content, c.data)
		tail := NotificationTail(n, Payload)
		if head := AppendNotificationHead(nil, Payload, 7, 2, len(tail)); len(head) != 0 {
			t.Errorf("%s: a head of %d bytes", name, len(head))
		}
		var got nammayatripb.NotificationPayload
		if err := proto.Unmarshal(tail, &got); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		want := &nammayatripb.NotificationPayload{
			Id: "ride-1", Category: c.content.Category, Title: c.content.Title, Body: c.content.Body, Show: c.data.Show,
			Entity: &nammayatripb.Entity{Id: c.data.Entity.ID, Type: c.data.Entity.Type, Data: c.data.Entity.Data},
		}
		if !proto.Equal(&got, want) {
			t.Errorf("%s: got %v, want %v", name, &got, want)
		}
		if len(tail) != cap(tail) {
			t.Errorf("%s: %d bytes in %d", name, len(tail), cap(tail))
		}
		set := &notification.Notification{ID: "ride-1", Content: c.content}
		set.Content.Data = nil
		SetPayload(set, &c.data)
		if got := NotificationTail(set, Payload); !bytes.Equal(got, tail) {
			t.Errorf("%s: set it is %x, want %x", name, got, tail)
		}
	}
}

func TestPayloadHasNoOtherFrames(t *testing.T) {
	for name, b := range map[string][]byte{
		"welcome": AppendWelcome(nil, Payload, &Welcome{Session: "s"}), "recall": AppendRecall(nil, Payload, []string{"a"}),
		"goodbye": AppendGoodbye(nil, Payload, Goodbye{Reason: "shutdown"}), "error": AppendError(nil, Payload, &Error{Code: "x"}),
		"pong": AppendPong(nil, Payload, EmptyDigest), "message": EncodeMessage(Payload, &Message{Topic: "a"}),
	} {
		if len(b) != 0 {
			t.Errorf("%s is %q", name, b)
		}
	}
}

func TestAcksOfThePayloadService(t *testing.T) {
	for name, c := range map[string]struct {
		in   []byte
		want string // id; empty: no frame
		bad  bool
	}{
		"ack":           {in: ackOf(t, "ride-1"), want: "ride-1"},
		"first":         {in: nil},
		"empty id":      {in: []byte{0x0a, 0x00}},
		"unknown field": {in: append([]byte{0x10, 0x07}, ackOf(t, "ride-1")...), want: "ride-1"},
		"last wins":     {in: append(ackOf(t, "ride-1"), ackOf(t, "ride-2")...), want: "ride-2"},
		"cut":           {in: []byte{0x0a, 0x05, 'a'}, bad: true},
		"not UTF-8":     {in: []byte{0x0a, 0x01, 0xff}, bad: true},
		"no protobuf":   {in: []byte{0x0a, 0xff}, bad: true},
	} {
		var f Client
		err := Payload.Decode(c.in, &f)
		switch {
		case (err != nil) != c.bad:
			t.Errorf("%s: %v", name, err)
		case err != nil:
		case c.want == "" && f.Kind != 0:
			t.Errorf("%s is a frame: %+v", name, f)
		case c.want != "" && (f.Kind != KindAck || len(f.IDs) != 1 || string(f.IDs[0]) != c.want):
			t.Errorf("%s: got %+v, want an ack of %s", name, f, c.want)
		}
	}
}

func ackOf(t testing.TB, id string) []byte {
	t.Helper()
	b, err := proto.Marshal(&nammayatripb.NotificationAck{Id: id})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func FuzzDecodePayloadAck(f *testing.F) {
	f.Add(ackOf(f, "ride-1"))
	f.Add([]byte{})
	f.Add([]byte{0x0a, 0xff})
	f.Add([]byte{0x10}) // another field, cut off
	f.Fuzz(func(t *testing.T, b []byte) {
		var c Client
		err := DecodePayloadAck(b, &c)
		typed(t, err)
		var want nammayatripb.NotificationAck
		if wrong := proto.Unmarshal(b, &want); (wrong != nil) != (err != nil) {
			t.Fatalf("%x: this decoder says %v, the library %v", b, err, wrong)
		}
		if err != nil {
			return
		}
		var ids []string
		for _, id := range c.IDs {
			ids = append(ids, string(id))
		}
		if id := want.GetId(); id == "" && len(ids) > 0 || id != "" && !slices.Equal(ids, []string{id}) {
			t.Fatalf("%x: got %q, want %q", b, ids, id)
		}
	})
}
