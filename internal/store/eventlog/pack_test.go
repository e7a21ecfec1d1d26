package eventlog

import (
	"bytes"
	"compress/flate"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"godwit.dev/godwit/internal/feeds/event"
)

// lives makes a chunk with the events of notifications that are stored, delivered and acknowledged.
func lives(n int) *Chunk {
	c := &Chunk{App: "a"}
	at := time.UnixMilli(1_700_000_000_000)
	var ids []string
	for range n {
		ids = append(ids, ulid.Make().String())
	}
	for _, is := range []event.Type{event.Stored, event.Delivered, event.Acked} {
		for i, id := range ids {
			at = at.Add(time.Millisecond)
			c.append(uint64(c.N+1), &event.Event{App: "a", Type: is, At: at, Note: id, To: fmt.Sprint("driver-", i*7919%100_000)})
		}
	}
	return c
}

func TestPackedChunksAreReadAsTheyWereAndTakeLessThanHalf(t *testing.T) {
	var p Packer
	for _, n := range []int{1, 2, 5, 40, 400, 41} {
		if n == 400 { // nothing came for a while
			p.Rest()
			p.Rest()
		}
		c := lives(n)
		packed := p.Pack(c.Data)
		if len(packed) > len(c.Data) || n >= 5 && len(packed) > len(c.Data)/2 {
			t.Errorf("%d bytes of %d notifications became %d", len(c.Data), n, len(packed))
		}
		want, err := Decode("a", string(c.Data), 9999)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := Decode("a", string(packed), 9999); err != nil || !slices.Equal(got, want) {
			t.Errorf("of %d notifications %d events are read instead of %d, %v", n, len(got), len(want), err)
		}
	}
}

func TestPackedChunksThatAreDamagedAreRefused(t *testing.T) {
	packed := string(new(Packer).Pack(lives(40).Data))
	var bomb bytes.Buffer
	bomb.WriteByte(packedVersion)
	w, err := flate.NewWriter(&bomb, flate.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(make([]byte, 4<<20)); err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	for what, data := range map[string]string{"cut off": packed[:len(packed)/2], "empty": packed[:1], "a bomb": bomb.String(), "packed twice": string(new(Packer).Pack(append([]byte(packed), make([]byte, packLeast)...)))} {
		if evs, err := Decode("a", data, 1); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %d events, %v", what, len(evs), err)
		}
	}
}

func BenchmarkPack(b *testing.B) {
	for _, n := range []int{8, 60, 400} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			c, p, size := lives(n), Packer{}, 0
			b.ReportAllocs()
			for b.Loop() {
				size = len(p.Pack(c.Data))
			}
			b.ReportMetric(float64(size)/float64(3*n), "B/event")
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*3*n), "ns/event")
		})
	}
}
