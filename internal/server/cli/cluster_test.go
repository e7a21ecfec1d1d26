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
	commits, copies, queue, answered, late := 41.25, 3.0, 2, int64(120), int64(1460)
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
		{[]godwit.Lease{{Name: "hooks/shop", Holder: "n2", Until: until}, {Name: "node/n2", Holder: "n2", Until: until}}, &godwit.Database{OldestSnapshotS: 71, HeldBy: "process 12 keeps dead rows from being removed since 1m11s, 9 transactions back"}, &commits, nodes + `
NODE  OWNS  LAG   BACKUP  COMMITS/S  COPIES EACH  QUEUE  DATABASE ANSWERED
n2    1     1.5s  n1      41.2       3.0          2      120 ms ago

The oldest snapshot: process 12 keeps dead rows from being removed since 1m11s, 9 transactions back.

LEASE       HOLDER  UNTIL
hooks/shop  n2      12:00:05
node/n2     n2      12:00:05
`},
	} {
		var out bytes.Buffer
		v.Leases, v.Database = c.leases, c.database
		if c.commits != nil {
			n := &v.Nodes[1]
			n.CommitsPerS, n.CopiesPerCommit, n.StoreQueue, n.StoreAnsweredMS = c.commits, &copies, &queue, &answered
			n.LagMS, n.Backup = &late, "n1"
		}
		if err := (&program{stdout: &out}).showCluster(&v); err != nil || out.String() != c.want {
			t.Errorf("shown %v:\n%s\nwant:\n%s", err, out.String(), c.want)
		}
	}
}
