package mailboxdb

import (
	"testing"
	"time"
)

func TestALaneKeepsTheTimesOfParkedOperationsAlone(t *testing.T) {
	l := &lane{s: &Store{cfg: Config{parkFor: time.Hour}}}
	p := &l.parking
	stuck := &settleOp{}
	p.park([]op{stuck}, []op{stuck})
	since := p.since[stuck]
	for range 100 {
		done, failed := &settleOp{}, &settleOp{}
		p.park([]op{done, failed}, []op{done, failed})
		p.next = time.Time{}
		p.take(nil)
		// A failed commit is repeated in parts: one is parked again, one succeeds, and one is answered with the error.
		p.park([]op{stuck}, []op{stuck})
		p.park([]op{done}, nil)
		l.giveUp()
	}
	if len(p.ops) != 1 || len(p.since) != 1 || !p.since[stuck].Equal(since) {
		t.Errorf("%d operations are parked, with %d times", len(p.ops), len(p.since))
	}
}
