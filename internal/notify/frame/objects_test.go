package frame

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"godwit.dev/godwit/api/godwitpb"
	"godwit.dev/godwit/internal/objects/object"
)

func TestObjectFramesOfClientsAreRead(t *testing.T) {
	var c Client
	for _, decode := range []func() error{
		func() error {
			return DecodeJSON([]byte(`{"register":{"objects":["a","b"],"group":"g","reset":true,"more":true}}`), &c)
		},
		func() error {
			return DecodeProto(client(&godwitpb.Register{Objects: []string{"a", "b"}, Group: "g", Reset_: true, More: true}), &c)
		},
	} {
		err := decode()
		if err != nil || c.Kind != KindRegister || len(c.Objects) != 2 || string(c.Objects[1]) != "b" || string(c.Group) != "g" || !c.Reset || !c.More {
			t.Errorf("got %+v, %v", c, err)
		}
	}
	for _, decode := range []func() error{
		func() error {
			return DecodeJSON([]byte(`{"object_ack":{"object":"a","version":"9223372036854775807"}}`), &c)
		},
		func() error {
			return DecodeJSON([]byte(`{"object_ack":{"object":"a","version":9223372036854775807}}`), &c)
		},
		func() error {
			return DecodeProto(client(&godwitpb.ObjectAck{Object: "a", Version: 1<<63 - 1}), &c)
		},
	} {
		err := decode()
		if err != nil || c.Kind != KindObjectAck || string(c.Object) != "a" || len(c.Group) != 0 || c.Version != object.MaxVersion || c.Reset || len(c.Objects) != 0 {
			t.Errorf("got %+v, %v", c, err)
		}
	}
	if err := DecodeJSON([]byte(`{"unregister":{"objects":["a"]}}`), &c); err != nil || c.Kind != KindUnregister || len(c.Objects) != 1 {
		t.Errorf("got %+v, %v", c, err)
	}
	if err := DecodeJSON([]byte(`{"register":{"reset":true}}`), &c); err != nil || !c.Reset {
		t.Errorf("an empty set: %+v, %v", c, err)
	}
}

func TestObjectFramesSayTheSameInEveryFormat(t *testing.T) {
	k := object.Key{Group: "region-1", Object: "camera-config"}
	cases := map[string]struct {
		state object.State
		json  string
		proto *godwitpb.Object
	}{
		"known": {
			object.State{Version: object.MaxVersion, Known: true},
			`{"group":"region-1","object":"camera-config","version":"9223372036854775807","unknown":false}`,
			&godwitpb.Object{Version: 1<<63 - 1},
		},
		"unknown with a floor": {
			object.State{Version: 7},
			`{"group":"region-1","object":"camera-config","version":"7","unknown":true}`,
			&godwitpb.Object{Version: 7, Unknown: true},
		},
		"never put": {
			object.State{}, `{"group":"region-1","object":"camera-config","unknown":true}`, &godwitpb.Object{Unknown: true},
		},
		"JSON payload": {
			object.State{Version: 1, Known: true, Payload: []byte("{\n\"a\":1}"), ContentType: "application/json"},
			`{"group":"region-1","object":"camera-config","version":"1","payload":{ "a":1},"unknown":false}`,
			&godwitpb.Object{Version: 1, Payload: []byte("{\n\"a\":1}"), ContentType: "application/json"},
		},
		"text payload": {
			object.State{Version: 1, Known: true, Payload: []byte("x\ny"), ContentType: "text/plain"},
			`{"group":"region-1","object":"camera-config","version":"1","payload":"x\ny","content_type":"text/plain","unknown":false}`,
			&godwitpb.Object{Version: 1, Payload: []byte("x\ny"), ContentType: "text/plain"},
		},
		"bytes": {
			object.State{Version: 1, Known: true, Payload: []byte{0xff}, ContentType: "application/octet-stream"},
			`{"group":"region-1","object":"camera-config","version":"1","payload_base64":"/w==","content_type":"application/octet-stream","unknown":false}`,
			&godwitpb.Object{Version: 1, Payload: []byte{0xff}, ContentType: "application/octet-stream"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			c.proto.Group, c.proto.Object = k.Group, k.Object
			if got, want := string(Object(JSON, k, &c.state)), `{"object":`+c.json+`}`; got != want {
				t.Errorf("JSON %s, want %s", got, want)
			}
			if event, _, data := sse(t, Object(SSE, k, &c.state)); event != "object" || data != c.json {
				t.Errorf("SSE %s of %s, want %s", event, data, c.json)
			}
			var got godwitpb.ServerFrame
			if err := proto.Unmarshal(Object(Proto, k, &c.state), &got); err != nil || !proto.Equal(got.GetObject(), c.proto) {
				t.Errorf("protobuf %v, %v; want %v", got.GetObject(), err, c.proto)
			}
		})
	}
}

func TestRegistrationAnswersSayTheSameInEveryFormat(t *testing.T) {
	r := &Registered{Group: "g", Objects: []string{"a", "b"}, Digest: EmptyDigest}
	if got, want := string(AppendRegistered(nil, JSON, r)), `{"registered":{"objects":["a","b"],"digest":"0000000000000000","group":"g"}}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	f := &RegistrationFailed{Objects: []string{"a"}, Code: "too_many", Transient: true}
	if got, want := string(AppendRegistrationFailed(nil, JSON, f)), `{"registration_failed":{"objects":["a"],"code":"too_many","transient":true}}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	var got godwitpb.ServerFrame
	if err := proto.Unmarshal(AppendRegistered(nil, Proto, r), &got); err != nil ||
		!proto.Equal(got.GetRegistered(), &godwitpb.Registered{Objects: r.Objects, Digest: r.Digest, Group: "g"}) {
		t.Errorf("%v, %v", &got, err)
	}
	if err := proto.Unmarshal(AppendRegistrationFailed(nil, Proto, f), &got); err != nil ||
		!proto.Equal(got.GetRegistrationFailed(), &godwitpb.RegistrationFailed{Objects: f.Objects, Code: f.Code, Transient: true}) {
		t.Errorf("%v, %v", &got, err)
	}
}
