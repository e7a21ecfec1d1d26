package reactor

import (
	"bytes"
	"log/slog"
	"testing"
)

func TestStaleEventFindsNoConnection(t *testing.T) {
	p := newChanPoller()
	l := newLoop(&Reactor{log: slog.New(slog.DiscardHandler)}, p)
	first, second := newConn(l), newConn(l)
	l.add(first)
	slot, gen := first.slot, first.gen
	if l.lookup(slot, gen) != first {
		t.Fatal("a connection is not found under its own key")
	}
	l.remove(first)
	if l.lookup(slot, gen) != nil {
		t.Error("a connection is found after it went")
	}
	l.add(second)
	if second.slot != slot {
		t.Fatal("the place was not used again")
	}
	if l.lookup(slot, gen) != nil {
		t.Error("an event for the first connection reaches the second")
	}
	if l.lookup(slot, second.gen) != second || l.lookup(slot+1, 0) != nil || l.lookup(-1, 0) != nil {
		t.Error("lookup is wrong")
	}
}

func TestQueueKeepsOrderAndCountsBytes(t *testing.T) {
	var q queue
	var want []byte
	shared := bytes.Repeat([]byte{'s'}, 2*shareFrom)[:shareFrom] // its capacity extends into bytes that must not be overwritten
	for i := range 200 {
		small := bytes.Repeat([]byte{byte(i)}, i%70)
		q.copyIn(small)
		want = append(want, small...)
		if i%3 == 0 {
			q.share(shared)
			want = append(want, shared...)
		}
		if i%5 == 0 { // the socket takes a part
			n := min(q.n, 333)
			q.drop(n)
			want = want[n:]
		}
		if got := bytes.Join(q.bufs, nil); !bytes.Equal(got, want) || q.n != len(want) {
			t.Fatalf("after %d pieces the queue holds %d bytes (counts %d), want %d, or they differ", i, len(got), q.n, len(want))
		}
	}
	for _, b := range shared[:2*shareFrom] {
		if b != 's' {
			t.Fatal("a shared tail was changed")
		}
	}
	q.drop(q.n)
	if len(q.bufs) != 0 || q.n != 0 {
		t.Error("an emptied queue holds something")
	}
}

func TestSmallPiecesShareChunks(t *testing.T) {
	var q queue
	for range 1000 {
		q.copyIn([]byte("0123456789"))
	}
	if len(q.bufs) > 10 {
		t.Errorf("10,000 bytes in small pieces take %d elements", len(q.bufs))
	}
}
