package godwit

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Stats are statistics of a server. Totals count since its start: the difference of two readings gives a rate.
type Stats struct {
	Version     string            `json:"version"`
	Node        string            `json:"node"`
	At          time.Time         `json:"at"`
	UptimeS     float64           `json:"uptime_s"`
	Sessions    int               `json:"sessions"`
	Connections int               `json:"connections"`  // on the server's event loops
	QueuedBytes int64             `json:"queued_bytes"` // bytes that wait to be sent to clients
	Pending     int64             `json:"pending"`
	Scheduled   int64             `json:"scheduled"`
	Stored      uint64            `json:"stored_total"`
	Settled     map[string]uint64 `json:"settled_total"` // by status
	Delivered   uint64            `json:"delivered_total"`
	Redelivered uint64            `json:"redelivered_total"`
	Acks        uint64            `json:"acks_total"`
	Publish     []LatencyBucket   `json:"publish_latency"`
	Objects     ObjectStats       `json:"objects"`
	Topics      TopicStats        `json:"topics"`
	Requests    RequestStats      `json:"requests"`
	Steps       StepStats         `json:"steps"`
	Store       StoreStats        `json:"store"`
	MemoryBytes uint64            `json:"memory_bytes"`
	Goroutines  int               `json:"goroutines"`
	Slowest     []SlowSession     `json:"slowest"`
}

// StepStats counts the messages that escalation steps sent through a node since its start.
type StepStats struct {
	Accepted uint64 `json:"accepted_total"` // taken by providers
	Failed   uint64 `json:"failed_total"`   // refused, not sent in time, or with unknown outcome
}

// RequestStats count requests made through a node since its start.
type RequestStats struct {
	Total   uint64          `json:"requests_total"`
	Failed  uint64          `json:"failed_total"` // without an answer, or with an answer of status 500 or more
	Latency []LatencyBucket `json:"latency"`      // of those that were answered
}

// LatencyBucket counts requests that took at most LeUS microseconds, and longer than the bucket before it.
type LatencyBucket struct {
	LeUS  int64  `json:"le_us"`
	Count uint64 `json:"count"`
}

// ObjectStats are statistics of objects and of their registrations.
type ObjectStats struct {
	Registrations int    `json:"registrations"` // of live sessions
	Changes       uint64 `json:"changes_total"` // stored
	Frames        uint64 `json:"frames_total"`  // written to sessions
	Acks          uint64 `json:"acks_total"`
}

// TopicStats are statistics of topics and of their subscribers.
type TopicStats struct {
	Subscriptions int    `json:"subscriptions"`   // patterns of all live sessions, each counted
	Publishes     uint64 `json:"publishes_total"` // through the server's API
	Messages      uint64 `json:"messages_total"`  // written to sessions
	Dropped       uint64 `json:"dropped_total"`   // told sessions as gaps
}

// StoreStats are figures of a server's store.
type StoreStats struct {
	Queued    int    `json:"queued"` // operations waiting to be written
	Commits   uint64 `json:"commits_total"`
	Appends   uint64 `json:"appends_total"`
	FreeBytes int64  `json:"free_bytes"`
	Full      bool   `json:"full"` // publishes are refused because disk space is low
}

// SlowSession is a session with unacknowledged notifications or queued bytes.
type SlowSession struct {
	Recipient   string    `json:"recipient"`
	ID          string    `json:"id"`
	Device      string    `json:"device"`
	Gateway     string    `json:"gateway"`
	ConnectedAt time.Time `json:"connected_at"`
	LastSeen    time.Time `json:"last_seen"`
	Unacked     int       `json:"unacked"`
	Behind      bool      `json:"behind"`
	QueuedBytes int64     `json:"queued_bytes"` // bytes that wait to be written to its connection
	OldestAt    time.Time `json:"oldest_at"`    // when its oldest unacknowledged notification was published or due; zero: none
}

// Stats returns the server's statistics and up to slowest (0 to 100) of the app's slowest sessions. These are ordered by age of the
// "oldest" unacknowledged notification (also if by is ""), by number "unacked", or by bytes "queued". It needs role read.
func (c *Client) Stats(ctx context.Context, slowest int, by string) (Stats, error) {
	var s Stats
	r := request{method: http.MethodGet, path: "/v1/stats"}
	if slowest > 0 {
		r.query = url.Values{"slowest": {strconv.Itoa(slowest)}}
		if by != "" {
			r.query.Set("by", by)
		}
	}
	if err := c.doJSON(ctx, r, nil, &s); err != nil {
		return s, fmt.Errorf("read the server's figures: %w", err)
	}
	return s, nil
}
