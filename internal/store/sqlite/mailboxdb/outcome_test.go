package mailboxdb

import (
	"math"
	"slices"
	"testing"

	"godwit.dev/godwit/internal/notify/notification"
)

var someSettled = []settled{
	{7, outcome{as: notification.Acked, at: 1_760_000_000_123, attempts: 1, delivered: 1_760_000_000_100}},
	{8, outcome{as: notification.Expired, at: 1_760_000_000_000, attempts: math.MaxUint32}},
	{3, outcome{as: notification.Recalled, at: 1_760_000_000_200, delivered: 1_760_000_000_900}},
	{math.MaxInt64, outcome{as: notification.Delivered, at: -5, attempts: 2, delivered: 1}},
}

// FuzzSettled: decoding arbitrary bytes does no harm, and encoding a decoded value gives the same bytes.
func FuzzSettled(f *testing.F) {
	b := encodeSettled(nil, someSettled)
	f.Add(b)
	f.Add(b[:len(b)-1])
	f.Add([]byte{2, 10})
	f.Fuzz(func(t *testing.T, stored []byte) {
		decode := func(b []byte) (list []settled, err error) {
			err = decodeSettled(b, func(q *settled) { list = append(list, *q) })
			return list, err
		}
		list, err := decode(stored)
		if err != nil {
			return
		}
		for i := range list {
			list[i].delivered = max(list[i].delivered, 0)
		}
		again, err := decode(encodeSettled(nil, list))
		if err != nil || !slices.Equal(list, again) {
			t.Errorf("%+v was read again as %+v, %v", list, again, err)
		}
	})
}

// FuzzOutcomes does the same with the outcomes of a stretch, which must never have too many places.
func FuzzOutcomes(f *testing.F) {
	var list []outcome
	for _, q := range someSettled {
		list = append(list, q.outcome, outcome{})
	}
	b := encodeOutcomes(list)
	f.Add(b)
	f.Add(b[:len(b)-2])
	f.Add(make([]byte, 1<<stretchBits+1))
	f.Fuzz(func(t *testing.T, stored []byte) {
		list, err := decodeOutcomes(stored)
		if err != nil {
			return
		}
		if len(list) > 1<<stretchBits {
			t.Fatalf("%d places", len(list))
		}
		for i := range list {
			list[i].delivered = max(list[i].delivered, 0)
		}
		again, err := decodeOutcomes(encodeOutcomes(list))
		if err != nil || !slices.Equal(list, again) {
			t.Errorf("%+v was read again as %+v, %v", list, again, err)
		}
	})
}

func TestOutcomesAreWhatTheyWere(t *testing.T) {
	var got []settled
	if err := decodeSettled(encodeSettled(nil, someSettled), func(q *settled) { got = append(got, *q) }); err != nil || !slices.Equal(got, someSettled) {
		t.Errorf("got %+v, %v", got, err)
	}
	list := make([]outcome, 1<<stretchBits)
	list[0], list[300], list[511] = someSettled[0].outcome, someSettled[1].outcome, someSettled[3].outcome
	again, err := decodeOutcomes(encodeOutcomes(list))
	if err != nil || !slices.Equal(again, list) {
		t.Errorf("got %+v, %v", again, err)
	}
}
