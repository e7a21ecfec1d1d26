package httpapi

import (
	"net/http"
	"runtime"
	"runtime/metrics"
	"time"
)

// statsJSON are the figures of this node. Totals count since its start: who wants rates takes differences.
type statsJSON struct {
	Version    string            `json:"version"`
	Node       string            `json:"node"`
	At         moment            `json:"at"`
	UptimeS    float64           `json:"uptime_s"`
	Sessions   int               `json:"sessions"`
	Pending    int64             `json:"pending"`
	Scheduled  int64             `json:"scheduled"`
	Stored     uint64            `json:"stored_total"`
	Settled    map[string]uint64 `json:"settled_total"`
	Delivered  uint64            `json:"delivered_total"`
	Redeliver  uint64            `json:"redelivered_total"`
	Acks       uint64            `json:"acks_total"`
	Store      storeJSON         `json:"store"`
	MemoryB    uint64            `json:"memory_bytes"`
	Goroutines int               `json:"goroutines"`
}

type storeJSON struct {
	Queued    int    `json:"queued"`
	Commits   uint64 `json:"commits_total"`
	Appends   uint64 `json:"appends_total"`
	FreeBytes int64  `json:"free_bytes"`
	Full      bool   `json:"full"`
}

// stats is GET /v1/stats.
func (a *api) stats(c *call) error {
	if _, err := c.params(); err != nil {
		return err
	}
	now := time.Now()
	st := a.Mailbox.Stats()
	v := statsJSON{
		Version: a.Version, Node: a.Node, At: moment(now), UptimeS: now.Sub(a.started).Seconds(),
		Sessions: a.Presence.Live(), Pending: st.Pending, Scheduled: st.Scheduled, Settled: map[string]uint64{},
		Store:   storeJSON{Queued: st.Queued, Commits: st.Commits, Appends: st.Appends, FreeBytes: st.FreeBytes, Full: st.Full},
		MemoryB: memoryInUse(), Goroutines: runtime.NumGoroutine(),
	}
	v.Delivered, v.Redeliver, v.Acks = a.Presence.Counts()
	stored, settled := a.Mailbox.Counts()
	v.Stored = stored
	for status, n := range settled {
		v.Settled[status.String()] = n
	}
	return c.value(http.StatusOK, v)
}

// memoryInUse is what the Go runtime holds from the system, less what it has given back.
func memoryInUse() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64() - s[1].Value.Uint64()
}
