package cli

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	godwit "godwit.dev/godwit/clients/go"
	"godwit.dev/godwit/internal/engine/latency"
)

// load is a server's activity between two readings of its statistics.
type load struct {
	At           time.Time            `json:"at"`
	Node         string               `json:"node"`
	Version      string               `json:"version"`
	UptimeS      float64              `json:"uptime_s"`
	Seconds      float64              `json:"seconds"` // that the rates are of
	Sessions     int                  `json:"sessions"`
	Connections  int                  `json:"connections"`
	QueuedBytes  int64                `json:"queued_bytes"`
	Pending      int64                `json:"pending"`
	Scheduled    int64                `json:"scheduled"`
	Publishes    float64              `json:"publishes_per_s"`
	Deliveries   float64              `json:"deliveries_per_s"`
	Redeliveries float64              `json:"redeliveries_per_s"`
	Acks         float64              `json:"acks_per_s"`
	Commits      float64              `json:"commits_per_s"`
	Changes      float64              `json:"object_changes_per_s"`
	Signals      float64              `json:"object_frames_per_s"`
	Followed     int                  `json:"object_registrations"`
	TopicPublish float64              `json:"topic_publishes_per_s"`
	Messages     float64              `json:"topic_messages_per_s"`
	Dropped      float64              `json:"topic_dropped_per_s"`
	Subscribed   int                  `json:"topic_subscriptions"`
	Requests     float64              `json:"requests_per_s"`
	ReqFailed    float64              `json:"failed_requests_per_s"`
	Steps        float64              `json:"steps_per_s"`
	StepsFailed  float64              `json:"failed_steps_per_s"`
	P50          float64              `json:"publish_p50_ms"`
	P99          float64              `json:"publish_p99_ms"`
	StoreQueue   int                  `json:"store_queue"`
	FreeBytes    int64                `json:"free_bytes"`
	Full         bool                 `json:"full"`
	MemoryBytes  uint64               `json:"memory_bytes"`
	Slowest      []godwit.SlowSession `json:"slowest"`
}

// loadBetween returns the differences between two readings. If there is no earlier one, or the server was started in between, it returns
// the activity since the server's start.
func loadBetween(old, now *godwit.Stats) load {
	if old.At.IsZero() || now.UptimeS < old.UptimeS {
		old = &godwit.Stats{At: now.At.Add(-time.Duration(now.UptimeS * float64(time.Second)))}
	}
	seconds := now.At.Sub(old.At).Seconds()
	rate := func(old, now uint64) float64 {
		if seconds <= 0 || now < old {
			return 0
		}
		return math.Round(float64(now-old)/seconds*10) / 10
	}
	took := bucketsBetween(old.Publish, now.Publish)
	slowest := now.Slowest
	if slowest == nil {
		slowest = []godwit.SlowSession{}
	}
	return load{
		At: now.At, Node: now.Node, Version: now.Version, UptimeS: now.UptimeS, Seconds: seconds,
		Sessions: now.Sessions, Connections: now.Connections, QueuedBytes: now.QueuedBytes,
		Pending: now.Pending, Scheduled: now.Scheduled,
		Publishes: rate(old.Stored, now.Stored), Deliveries: rate(old.Delivered, now.Delivered),
		Redeliveries: rate(old.Redelivered, now.Redelivered), Acks: rate(old.Acks, now.Acks),
		Commits: rate(old.Store.Commits, now.Store.Commits),
		Changes: rate(old.Objects.Changes, now.Objects.Changes), Signals: rate(old.Objects.Frames, now.Objects.Frames), Followed: now.Objects.Registrations,
		TopicPublish: rate(old.Topics.Publishes, now.Topics.Publishes), Messages: rate(old.Topics.Messages, now.Topics.Messages),
		Dropped: rate(old.Topics.Dropped, now.Topics.Dropped), Subscribed: now.Topics.Subscriptions,
		Requests: rate(old.Requests.Total, now.Requests.Total), ReqFailed: rate(old.Requests.Failed, now.Requests.Failed),
		Steps: rate(old.Steps.Accepted, now.Steps.Accepted), StepsFailed: rate(old.Steps.Failed, now.Steps.Failed),
		P50: milliseconds(latency.Quantile(took, 0.5)), P99: milliseconds(latency.Quantile(took, 0.99)),
		StoreQueue: now.Store.Queued, FreeBytes: now.Store.FreeBytes, Full: now.Store.Full, MemoryBytes: now.MemoryBytes,
		Slowest: slowest,
	}
}

// bucketsBetween returns the difference between two readings of a histogram.
func bucketsBetween(old, now []godwit.LatencyBucket) []latency.Bucket {
	var out []latency.Bucket
	for _, b := range now {
		for len(old) > 0 && old[0].LeUS < b.LeUS {
			old = old[1:]
		}
		if len(old) > 0 && old[0].LeUS == b.LeUS {
			b.Count -= min(old[0].Count, b.Count)
		}
		out = append(out, latency.Bucket{Most: time.Duration(b.LeUS) * time.Microsecond, Count: b.Count})
	}
	return out
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// lines returns the view of a load for people, in at most height lines (0: all).
func (l *load) lines(by string, height int) []string {
	up := time.Duration(l.UptimeS * float64(time.Second)).Round(time.Second)
	out := []string{
		fmt.Sprintf("godwit %s on %s, up %s, at %s", clean(l.Version), clean(l.Node), up, l.At.Local().Format(time.TimeOnly)),
		fmt.Sprintf("clients   %s sessions, %s connections, %s queued", grouped(float64(l.Sessions)), grouped(float64(l.Connections)), size(l.QueuedBytes)),
		fmt.Sprintf("traffic   %s publishes/s, %s deliveries/s, %s acks/s, %s redeliveries/s", grouped(l.Publishes), grouped(l.Deliveries), grouped(l.Acks), grouped(l.Redeliveries)),
		fmt.Sprintf("objects   %s changes/s, %s sent/s, %s registrations", grouped(l.Changes), grouped(l.Signals), grouped(float64(l.Followed))),
		fmt.Sprintf("topics    %s publishes/s, %s sent/s, %s dropped/s, %s subscriptions", grouped(l.TopicPublish), grouped(l.Messages), grouped(l.Dropped), grouped(float64(l.Subscribed))),
		fmt.Sprintf("requests  %s/s, %s failed/s", grouped(l.Requests), grouped(l.ReqFailed)),
		fmt.Sprintf("steps     %s accepted/s, %s failed/s", grouped(l.Steps), grouped(l.StepsFailed)),
		fmt.Sprintf("publish   p50 %s, p99 %s", l.took(l.P50), l.took(l.P99)),
		fmt.Sprintf("store     %s pending, %s scheduled, %s in queue, %s commits/s, %s free%s", grouped(float64(l.Pending)), grouped(float64(l.Scheduled)), grouped(float64(l.StoreQueue)), grouped(l.Commits), size(l.FreeBytes), l.full()),
		"memory    " + size(int64(min(l.MemoryBytes, math.MaxInt64))),
		"",
	}
	rows := len(l.Slowest)
	if height > 0 {
		rows = max(min(rows, height-len(out)-1), 0)
	}
	if len(l.Slowest) == 0 {
		return append(out, "no session has anything unacknowledged or queued")
	}
	return append(out, sessionLines(l.Slowest[:rows], l.At, by)...)
}

func (l *load) took(ms float64) string {
	if ms == 0 {
		return "-" // nothing was published
	}
	return strconv.FormatFloat(ms, 'g', 3, 64) + " ms"
}

func (l *load) full() string {
	if l.Full {
		return ", FULL: publishes are refused"
	}
	return ""
}

// sessionLines returns the table of the slowest sessions, with a mark on the column by which they are sorted.
func sessionLines(slowest []godwit.SlowSession, at time.Time, by string) []string {
	heading := func(name string) string {
		if strings.EqualFold(name, by) {
			return name + "*"
		}
		return name
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 4, 2, ' ', 0)
	fmt.Fprintf(w, "RECIPIENT\tDEVICE\tGATEWAY\t%s\t%s\t%s\tSEEN\tCONNECTED\n", heading("OLDEST"), heading("UNACKED"), heading("QUEUED"))
	for i := range slowest {
		s := &slowest[i]
		device := s.Device
		if device == "" {
			device = "-"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\n", clean(s.Recipient), clean(device), clean(s.Gateway),
			ago(at, s.OldestAt), s.Unacked, size(s.QueuedBytes), ago(at, s.LastSeen), ago(at, s.ConnectedAt))
	}
	_ = w.Flush() // into memory
	return strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
}

// ago writes the time since then, as short as possible.
func ago(now, then time.Time) string {
	if then.IsZero() {
		return "-"
	}
	d := max(now.Sub(then), 0)
	switch {
	case d < 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d < time.Minute:
		return d.Round(time.Second).String()
	}
	return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
}

// grouped writes a number with commas between its thousands, and a fraction only if it is small.
func grouped(f float64) string {
	if f < 10 && f != math.Trunc(f) {
		return strconv.FormatFloat(f, 'f', 1, 64)
	}
	digits := strconv.FormatFloat(math.Round(f), 'f', 0, 64)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
