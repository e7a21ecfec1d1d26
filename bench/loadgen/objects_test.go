package loadgen

import (
	"testing"
	"time"

	"godwit.dev/godwit/bench/latency"
	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/objects/object"
)

func TestFramesAboutObjectsAreRead(t *testing.T) {
	payload, stamp := makeData(34)
	putStamp(payload[stamp:], due)
	key := object.Key{Group: "bench", Object: ObjectName(7)}
	for f, read := range map[frame.Format]func([]byte) (arrival, error){frame.JSON: readJSON, frame.Proto: readProto} {
		a, err := read(frame.Object(f, key, &object.State{Version: object.MaxVersion, Known: true, Payload: payload, ContentType: "application/json"}))
		if err != nil || a.kind != signal || string(a.id) != "o0000007" || a.seq != 1<<63-1 || a.unknown || a.due != due {
			t.Errorf("format %s: a signal is read as %+v, %v", f, a, err)
		}
		for floor, s := range []object.State{{}, {Version: 1}} {
			a, err := read(frame.Object(f, key, &s))
			if err != nil || a.kind != signal || !a.unknown || a.seq != uint64(floor) {
				t.Errorf("format %s: an unknown version is read as %+v, %v", f, a, err)
			}
		}
		for name, b := range map[string][]byte{
			"registered": frame.AppendRegistered(nil, f, &frame.Registered{Objects: []string{"a"}, Group: "g", Digest: "00000000000000ff"}),
			"pong":       frame.AppendPong(nil, f, "00000000000000ff"),
		} {
			if a, err := read(b); err != nil || a.kind != agreement || string(a.digest) != "00000000000000ff" {
				t.Errorf("format %s: %s is read as %+v, %v", f, name, a, err)
			}
		}
		w := frame.AppendWelcome(nil, f, &frame.Welcome{Session: "s1", App: "demo", Recipient: "r", Heartbeat: time.Minute, Digest: "00000000000000fe"})
		if a, err := read(w); err != nil || a.kind != welcome || string(a.digest) != "00000000000000fe" {
			t.Errorf("format %s: a welcome is read as %+v, %v", f, a, err)
		}
		r := frame.AppendRegistrationFailed(nil, f, &frame.RegistrationFailed{Objects: []string{"a"}, Code: "forbidden"})
		if a, err := read(r); err != nil || a.kind != refusal {
			t.Errorf("format %s: a refusal is read as %+v, %v", f, a, err)
		}
	}
}

func TestObjectFramesAreParsed(t *testing.T) {
	for transport, decode := range map[string]func([]byte, *frame.Client) error{WebSocketJSON: frame.DecodeJSON, GRPC: frame.DecodeProto} {
		s := &Subscribers{cfg: SubscriberConfig{Transport: transport}}
		for _, more := range []bool{true, false} {
			var c frame.Client
			err := decode(s.registerFrame([]string{"o1", "o2"}, more), &c)
			if err != nil || c.Kind != frame.KindRegister || len(c.Objects) != 2 || string(c.Objects[1]) != "o2" || !c.Reset || c.More != more {
				t.Errorf("%s: registering is read as %+v, %v", transport, c, err)
			}
		}
		var c frame.Client
		err := decode(s.objectAckFrame([]byte("o1"), 1<<63-1), &c)
		if err != nil || c.Kind != frame.KindObjectAck || string(c.Object) != "o1" || c.Version != object.MaxVersion {
			t.Errorf("%s: an acknowledgement is read as %+v, %v", transport, c, err)
		}
	}
}

func TestSubscribersShareThePoolOfObjects(t *testing.T) {
	f := newFollowed(&Following{Group: "bench", Objects: 3, Pool: 5})
	var got []int
	f.each(3, func(i int) { got = append(got, i) })
	if len(got) != 3 || got[0] != 4 || got[1] != 0 || got[2] != 1 {
		t.Errorf("subscriber 3 follows %v", got)
	}
	want := object.DigestOf(
		object.Key{Group: "bench", Object: "o0000004"}, object.Key{Group: "bench", Object: "o0000000"}, object.Key{Group: "bench", Object: "o0000001"},
	)
	if f.digest(3) != want.String() {
		t.Errorf("digest %s, want %s", f.digest(3), want)
	}
}

func TestOnlyWhatIsPutAfterRegisteringCounts(t *testing.T) {
	const agreed = 1000
	s := &Subscribers{followed: newFollowed(&Following{Group: "bench", Objects: 2, Pool: 2, Common: true}), latency: latency.New(), interval: latency.New()}
	sub := &subscriber{s: s, wire: newWebSocketWire(Target{}, false, nil)}
	s.readAt = agreed
	sub.signalled(arrival{kind: signal, id: []byte(CommonObject), seq: 1, due: agreed - 500}) // before the server's word
	if err := sub.compare([]byte(s.followed.digest(0))); err != nil || !sub.agreed {
		t.Fatalf("the digest of all three objects is not agreed on: %v", err)
	}
	if one := newFollowed(&Following{Group: "bench", Objects: 2, Pool: 2}); one.digest(0) == s.followed.digest(0) {
		t.Error("the digest lacks the object that is common")
	}
	sub.signalled(arrival{kind: signal, id: []byte(CommonObject), seq: 2, due: agreed - 1})
	sub.signalled(arrival{kind: signal, id: []byte(CommonObject), seq: 3, due: agreed + 1})
	if s.Received() != 1 || s.TakeLatency().Count() != 1 {
		t.Errorf("%d signals count, want the last of three", s.Received())
	}
}
