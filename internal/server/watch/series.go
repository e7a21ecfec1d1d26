package watch

import (
	"math"
	"time"

	"godwit.dev/godwit/internal/engine/latency"
)

// Totals holds a server's counts since its start, and its current state.
type Totals struct {
	Stored, Delivered, Redelivered, Acked, Expired, Lost uint64 // notifications; lost: ended as failed
	Topics, Requests, Unanswered, Objects                uint64
	Turned                                               uint64 // connections that were refused
	Dropped                                              uint64 // events that the event log could not store
	Sessions, Connections, Pending, Scheduled, Queue     int64
	Free                                                 int64 // bytes on the store's disk
	Memory                                               uint64
	Publish                                              []latency.Bucket
	Push                                                 map[Ended]uint64
}

// Ended is a channel and an outcome of its messages.
type Ended struct{ Channel, Outcome string }

// span is two readings and the time between them.
type span struct {
	before, now *Totals
	requests    [2]uint64 // refused and failed in between
	seconds     float64
	publish     []latency.Bucket // that ended in between
}

// Series is a figure over time.
type Series struct {
	Name string
	of   func(s *span) float64 // NaN: there is none
}

func rate(name string, of func(t *Totals) uint64) Series {
	return Series{name, func(s *span) float64 { return float64(of(s.now)-of(s.before)) / s.seconds }}
}

func level(name string, of func(t *Totals) int64) Series {
	return Series{name, func(s *span) float64 { return float64(of(s.now)) }}
}

func quantile(name string, q float64) Series {
	return Series{name, func(s *span) float64 {
		if len(s.publish) == 0 {
			return math.NaN()
		}
		return float64(latency.Quantile(s.publish, q)) / float64(time.Millisecond)
	}}
}

// all lists the series: first counts, per second; then states.
var all = []Series{
	rate("published", func(t *Totals) uint64 { return t.Stored }),
	rate("delivered", func(t *Totals) uint64 { return t.Delivered }),
	rate("redelivered", func(t *Totals) uint64 { return t.Redelivered }),
	rate("acknowledged", func(t *Totals) uint64 { return t.Acked }),
	rate("expired", func(t *Totals) uint64 { return t.Expired }),
	rate("failed", func(t *Totals) uint64 { return t.Lost }),
	rate("push_accepted", func(t *Totals) uint64 { return t.pushed(true) }),
	rate("push_failed", func(t *Totals) uint64 { return t.pushed(false) }),
	rate("topic_messages", func(t *Totals) uint64 { return t.Topics }),
	rate("object_changes", func(t *Totals) uint64 { return t.Objects }),
	rate("requests", func(t *Totals) uint64 { return t.Requests }),
	rate("requests_failed", func(t *Totals) uint64 { return t.Unanswered }),
	rate("connections_refused", func(t *Totals) uint64 { return t.Turned }),
	{"calls_refused", func(s *span) float64 { return float64(s.requests[0]) / s.seconds }},
	{"calls_failed", func(s *span) float64 { return float64(s.requests[1]) / s.seconds }},
	rate("events_dropped", func(t *Totals) uint64 { return t.Dropped }),
	quantile(P50, 0.5),
	quantile(P99, 0.99),
	level("sessions", func(t *Totals) int64 { return t.Sessions }),
	level("connections", func(t *Totals) int64 { return t.Connections }),
	level("pending", func(t *Totals) int64 { return t.Pending }),
	level("scheduled", func(t *Totals) int64 { return t.Scheduled }),
	level("store_queue", func(t *Totals) int64 { return t.Queue }),
	level(Free, func(t *Totals) int64 { return t.Free }),
	level("memory_bytes", func(t *Totals) int64 { return int64(t.Memory) }), // of this machine
}

// taken is the outcome of a message that its provider has accepted.
const taken = "accepted"

// pushed counts the messages that providers have accepted if well is true, else those that ended otherwise.
func (t *Totals) pushed(well bool) (n uint64) {
	for e, count := range t.Push {
		if (e.Outcome == taken) == well {
			n += count
		}
	}
	return n
}

// since returns the difference from an earlier reading: both list their buckets in order, and no bucket disappears.
func since(now, before []latency.Bucket) (between []latency.Bucket) {
	for _, b := range now {
		for len(before) > 0 && before[0].Most < b.Most {
			before = before[1:]
		}
		if len(before) > 0 && before[0].Most == b.Most {
			b.Count -= before[0].Count
		}
		if b.Count > 0 {
			between = append(between, b)
		}
	}
	return between
}

// Names of series that are not summed over nodes: the highest latency and the least free space count.
const (
	P50  = "publish_p50_ms"
	P99  = "publish_p99_ms"
	Free = "free_bytes"
)
