package operator

import (
	"net/http"
	"runtime"
	"time"

	"godwit.dev/godwit/internal/engine/latency"
	"godwit.dev/godwit/internal/engine/memory"
	"godwit.dev/godwit/internal/server/httpapi/call"
	"godwit.dev/godwit/internal/server/httpapi/form"
)

// statsJSON holds the statistics of this node. Totals count since its start; a rate is the difference between two readings.
type statsJSON struct {
	Version    string            `json:"version"`
	Node       string            `json:"node"`
	At         call.Moment       `json:"at"`
	UptimeS    float64           `json:"uptime_s"`
	Sessions   int               `json:"sessions"`
	Conns      int               `json:"connections"`
	QueuedB    int64             `json:"queued_bytes"`
	Pending    int64             `json:"pending"`
	Scheduled  int64             `json:"scheduled"`
	Stored     uint64            `json:"stored_total"`
	Settled    map[string]uint64 `json:"settled_total"`
	Delivered  uint64            `json:"delivered_total"`
	Redeliver  uint64            `json:"redelivered_total"`
	Acks       uint64            `json:"acks_total"`
	Publish    []bucketJSON      `json:"publish_latency"`
	Objects    objectFiguresJSON `json:"objects"`
	Topics     topicFiguresJSON  `json:"topics"`
	Requests   requestFigsJSON   `json:"requests"`
	Steps      stepFiguresJSON   `json:"steps"`
	Store      storeJSON         `json:"store"`
	MemoryB    uint64            `json:"memory_bytes"`
	Goroutines int               `json:"goroutines"`
	Slowest    []lagJSON         `json:"slowest,omitempty"`
	Presence   string            `json:"presence,omitempty"` // of the slowest
}

// bucketJSON counts the operations that took longer than the previous bucket's limit, and at most LeUS microseconds.
type bucketJSON struct {
	LeUS  int64  `json:"le_us"`
	Count uint64 `json:"count"`
}

type objectFiguresJSON struct {
	Registrations int    `json:"registrations"`
	Changes       uint64 `json:"changes_total"`
	Frames        uint64 `json:"frames_total"`
	Acks          uint64 `json:"acks_total"`
}

type topicFiguresJSON struct {
	Subscriptions int    `json:"subscriptions"`
	Publishes     uint64 `json:"publishes_total"`
	Messages      uint64 `json:"messages_total"`
	Dropped       uint64 `json:"dropped_total"`
}

type requestFigsJSON struct {
	Total   uint64       `json:"requests_total"`
	Failed  uint64       `json:"failed_total"`
	Latency []bucketJSON `json:"latency"`
}

type stepFiguresJSON struct {
	Accepted uint64 `json:"accepted_total"`
	Failed   uint64 `json:"failed_total"`
}

type storeJSON struct {
	Queued    int    `json:"queued"`
	Commits   uint64 `json:"commits_total"`
	Appends   uint64 `json:"appends_total"`
	FreeBytes int64  `json:"free_bytes"`
	Full      bool   `json:"full"`
}

// Stats is GET /v1/stats.
func (a *API) Stats(c *call.Call) error {
	q, err := c.Params("slowest", "by")
	if err != nil {
		return err
	}
	slowest, partial, err := a.slowest(c, q)
	if err != nil {
		return err
	}
	now := time.Now()
	st := a.Mailbox.Stats()
	v := statsJSON{
		Version: a.Version, Node: a.Node, At: call.Moment(now), UptimeS: now.Sub(a.started).Seconds(),
		Sessions: a.Presence.Live(), Pending: st.Pending, Scheduled: st.Scheduled, Settled: map[string]uint64{},
		Store:   storeJSON{Queued: st.Queued, Commits: st.Commits, Appends: st.Appends, FreeBytes: st.FreeBytes, Full: st.Full},
		MemoryB: memory.InUse(), Goroutines: runtime.NumGoroutine(), Publish: []bucketJSON{}, Requests: requestFigsJSON{Latency: []bucketJSON{}}, Slowest: slowest, Presence: form.Completeness(partial),
	}
	if a.Figures != nil {
		f := a.Figures()
		v.Conns, v.QueuedB, v.Objects = f.Connections, f.QueuedBytes, objectFiguresJSON(f.Objects)
		v.Topics, v.Steps = topicFiguresJSON(f.Topics), stepFiguresJSON(f.Steps)
		v.Publish = append(v.Publish, bucketsOf(f.PublishLatency)...)
		v.Requests = requestFigsJSON{Total: f.Requests.Total, Failed: f.Requests.Failed, Latency: bucketsOf(f.Requests.Latency)}
	}
	v.Delivered, v.Redeliver, v.Acks = a.Presence.Counts()
	stored, settled := a.Mailbox.Counts()
	v.Stored = stored
	for status, n := range settled {
		v.Settled[status.String()] = n
	}
	return c.Value(http.StatusOK, v)
}

func bucketsOf(from []latency.Bucket) []bucketJSON {
	out := make([]bucketJSON, len(from))
	for i, b := range from {
		out[i] = bucketJSON{b.Most.Microseconds(), b.Count}
	}
	return out
}
