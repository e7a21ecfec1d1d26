package loadgen

import (
	"testing"

	"godwit.dev/godwit/internal/notify/frame"
)

// The load generator reads topic messages as the server writes them.
func TestMessagesAreReadAsTheServerWritesThem(t *testing.T) {
	w := newWebSocketWire(Target{}, false, nil)
	data, at := makeData(200)
	putStamp(data[at:], 77)
	for seq := uint64(1); seq <= 2; seq++ {
		a, err := w.read(frame.EncodeMessage(frame.JSON, &frame.Message{Topic: "bench.all", ContentType: "application/json", Data: data}))
		if err != nil || a.kind != notification || a.seq != seq || a.due != 77 {
			t.Errorf("read as %+v, %v", a, err)
		}
	}
	if a, err := w.read(frame.AppendGap(nil, frame.JSON, 4711)); err != nil || a.kind != gap || a.seq != 4711 {
		t.Errorf("a gap is read as %+v, %v", a, err)
	}
	var c frame.Client
	if err := frame.DecodeJSON(subscribeJSON("bench.all"), &c); err != nil || c.Kind != frame.KindSubscribe {
		t.Errorf("the server reads the subscription as %+v, %v", c, err)
	}
}
