package loadgen

import (
	"bytes"
	"testing"

	"google.golang.org/protobuf/proto"

	"godwit.dev/godwit/api/nammayatripb"
	"godwit.dev/godwit/bench/redispub"
)

func TestPayloadsOfNammayatriAreRead(t *testing.T) {
	data, stamp := makeData(300)
	putStamp(data[stamp:], due)
	b, err := proto.Marshal(&nammayatripb.NotificationPayload{
		Id: "ride-1", Category: "NEW_RIDE_AVAILABLE", Title: titleMark + "41", Entity: &nammayatripb.Entity{Id: "e", Data: string(data)},
	})
	if err != nil {
		t.Fatal(err)
	}
	w := newNammayatriWire(Target{}, "client")
	a, err := w.read(b)
	if err != nil || a.kind != notification || a.seq != 41 || string(a.id) != "ride-1" || a.due != due {
		t.Errorf("read %+v, %v", a, err)
	}
	if _, err := w.read([]byte("\x0a\x01x")); err == nil {
		t.Error("a payload that names no ride is read")
	}
	frames := w.ack(nil, [][]byte{[]byte("a"), []byte("ride-1")})
	var acks []string
	for len(frames) > 0 {
		n := int(frames[0])<<16 | int(frames[1])<<8 | int(frames[2])
		var ack nammayatripb.NotificationAck
		if err := proto.Unmarshal(frames[h2Head+5:h2Head+n], &ack); err != nil {
			t.Fatal(err)
		}
		acks, frames = append(acks, ack.Id), frames[h2Head+n:]
	}
	if len(acks) != 2 || acks[0] != "a" || acks[1] != "ride-1" {
		t.Errorf("acknowledged %q", acks)
	}
	if !bytes.Contains(w.begin(), []byte(ClientToken("client"))) {
		t.Error("the stream is opened without the client's token")
	}
}

func TestClientsOfNammayatriAreSpreadOverShards(t *testing.T) {
	const clients, shards = 1000, 128
	seen := map[int]bool{}
	for n := range clients {
		seen[redispub.Shard(ClientID("p-", n), shards)] = true
	}
	if len(seen) != shards {
		t.Errorf("%d clients are in %d of %d shards", clients, len(seen), shards)
	}
}
