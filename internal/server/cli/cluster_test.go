package cli

import (
	"bytes"
	"testing"
	"time"

	godwit "godwit.dev/godwit/clients/go"
)

func TestTheClusterIsShownWithItsRoutesAndLeases(t *testing.T) {
	until := time.Date(2026, 3, 1, 12, 0, 5, 0, time.Local)
	v := godwit.Cluster{
		Nodes: []godwit.Node{
			{Name: "n1", Boot: "b1", Version: "1.0", State: "self", Sessions: 7, UptimeS: 61},
			{Name: "n2", Boot: "b2", Version: "1.0", State: "alive", UptimeS: 5, ClockOffsetMS: -2, HeardAgoMS: 300},
		},
		Routes: []godwit.Route{{Boot: "b2", Address: "10.0.0.2:7000", PendingBytes: 12}},
	}
	nodes := `NODE  STATE  VERSION  SESSIONS  UP    CLOCK  HEARD      ROUTE
n1    self   1.0      7         1m1s  0ms    -          
n2    alive  1.0      0         5s    -2ms   300ms ago  10.0.0.2:7000, 12 bytes wait
`
	commits, copies, queue, answered := 41.25, 3.0, 2, int64(120)
	for _, c := range []struct {
		leases   []godwit.Lease
		database *godwit.Database
		commits  *float64
		want     string
	}{
		{nil, nil, nil, nodes},
		{[]godwit.Lease{{Name: "upkeep", Holder: "n2/b2", Until: until}}, nil, nil, nodes + `
LEASE   HOLDER  UNTIL
upkeep  n2/b2   12:00:05
`},
		{nil, &godwit.Database{OldestSnapshotS: 71, HeldBy: "process 12 keeps dead rows from being removed since 1m11s, 9 transactions back"}, &commits, nodes + `
NODE  COMMITS/S  COPIES EACH  QUEUE  DATABASE ANSWERED
n2    41.2       3.0          2      120 ms ago

The oldest snapshot: process 12 keeps dead rows from being removed since 1m11s, 9 transactions back.
`},
	} {
		var out bytes.Buffer
		v.Leases, v.Database = c.leases, c.database
		if c.commits != nil {
			n := &v.Nodes[1]
			n.CommitsPerS, n.CopiesPerCommit, n.StoreQueue, n.StoreAnsweredMS = c.commits, &copies, &queue, &answered
		}
		if err := (&program{stdout: &out}).showCluster(&v); err != nil || out.String() != c.want {
			t.Errorf("shown %v:\n%s\nwant:\n%s", err, out.String(), c.want)
		}
	}
}
