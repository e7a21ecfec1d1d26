package mailboxdb

import (
	"math"
	"slices"
	"testing"

	"godwit.dev/godwit/internal/notify/notification"
)

var somePacked = []packed{{7, 1}, {8, 900}, {3, 2}, {math.MaxUint32, math.MaxInt64}, {1, 0}}

// FuzzPacked: decoding arbitrary bytes does no harm, and encoding a decoded value gives the same bytes.
func FuzzPacked(f *testing.F) {
	b := appendCopies(nil, somePacked)
	f.Add(b, len(somePacked))
	f.Add(b, 4)
	f.Add(b[:len(b)-1], len(somePacked))
	f.Add([]byte{1, 0}, 1)
	f.Add([]byte{2, 2}, 1<<stretchBits+1)
	f.Add([]byte{2, 2}, -1)
	f.Fuzz(func(t *testing.T, stored []byte, n int) {
		list, err := decodeCopies(nil, stored, n)
		if err != nil {
			return
		}
		if len(list) != n || n > 1<<stretchBits {
			t.Fatalf("%d copies of %d", len(list), n)
		}
		if again, err := decodeCopies(nil, appendCopies(nil, list), n); err != nil || !slices.Equal(list, again) {
			t.Errorf("%v was read again as %v, %v", list, again, err)
		}
	})
}

func TestPackedCopiesAreWhatTheyWere(t *testing.T) {
	if got, err := decodeCopies(nil, appendCopies(nil, somePacked), len(somePacked)); err != nil || !slices.Equal(got, somePacked) {
		t.Errorf("got %v, %v", got, err)
	}
}

// A pack has room for the outcome of each copy, whatever its time.
func TestAPackSaysHowACopyEnded(t *testing.T) {
	for _, c := range []struct{ at, delivered, settled int64 }{
		{1000, 0, 1000}, {1001, 1, 1001}, {999, 5, 1000}, {1000 + 30*24*3600*1000, 0, 1000 + 30*24*3600*1000}, {math.MaxInt64, 0, 1000 + endTimes},
	} {
		p := &pack{shared: row{pos: 10, created: 1000, delivered: -1000, offset: soleCopy, open: true, apart: true}, copies: make([]packed, 3), ends: make([]byte, 3*endBytes)}
		p.setEnd(11, &outcome{as: notification.Acked, at: c.at, delivered: c.delivered})
		r, ok := p.row(11)
		if !ok || r.open || r.apart || r.status != notification.Acked || r.settled != c.settled || (r.delivered > 0) != (c.delivered > 0) {
			t.Errorf("%+v: %+v, %t", c, r, ok)
		}
		for _, pos := range []int64{10, 12} {
			if r, ok := p.row(pos); !ok || !r.open || !r.apart {
				t.Errorf("%+v: its neighbour %+v, %t", c, r, ok)
			}
		}
	}
}
