package cluster

import (
	"testing"
	"time"
)

func TestPaceIsOfTheLastSeconds(t *testing.T) {
	var rs readings
	at := time.Now()
	heard := int64(40)
	if p := rs.pace(&heard, nil); p.Known || p.Answered != 40*time.Millisecond || p.Lag >= 0 {
		t.Errorf("of no reading: %+v", p)
	}
	for i := range uint64(30) { // a hundred commits of three copies a second, and five times as many in the end
		n := 100 * i
		if i > 18 {
			n += 400 * (i - 18)
		}
		rs.add(at.Add(time.Duration(i)*time.Second), Work{Commits: n, Copies: 3 * n, Queue: int(i)})
	}
	if p := rs.pace(nil, &heard); !p.Known || p.Commits != 500 || p.PerCommit != 3 || p.Queue != 29 || p.Answered >= 0 || p.Lag != 40*time.Millisecond {
		t.Errorf("%+v", p)
	}
	rs.add(at.Add(time.Minute), Work{Commits: 1})
	if p := rs.pace(nil, nil); p.Known {
		t.Errorf("of a count that went back: %+v", p)
	}
}
