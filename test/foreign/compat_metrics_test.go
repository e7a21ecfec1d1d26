package foreign

import (
	"bufio"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/bench/redispub"
	"godwit.dev/godwit/internal/testkit/redisserver/redistest"
	"godwit.dev/godwit/test/blackbox"
)

var sampleLine = regexp.MustCompile(`^(\w+)(?:\{(.*)\})? (\S+)`)

// sample is one line of /metrics.
type sample struct {
	name   string
	labels map[string]string
	value  float64
}

func (w *world) samples() (all []sample) {
	w.Helper()
	_, page := w.get("/metrics")
	label := regexp.MustCompile(`(\w+)="([^"]*)"`)
	for lines := bufio.NewScanner(strings.NewReader(page)); lines.Scan(); {
		m := sampleLine.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		value, err := strconv.ParseFloat(m[3], 64)
		if err != nil {
			w.Fatalf("/metrics says %q", lines.Text())
		}
		s := sample{m[1], map[string]string{}, value}
		for _, pair := range label.FindAllStringSubmatch(m[2], -1) {
			s.labels[pair[1]] = pair[2]
		}
		all = append(all, s)
	}
	return all
}

// sum adds up the samples with this name and at least these labels, given as name, value, name, value.
func (w *world) sum(name string, labels ...string) (sum float64, found bool) {
	w.Helper()
	for _, s := range w.samples() {
		match := s.name == name
		for i := 0; i < len(labels); i += 2 {
			match = match && s.labels[labels[i]] == labels[i+1]
		}
		if match {
			sum, found = sum+s.value, true
		}
	}
	return sum, found
}

// counts waits until a metric has a value.
func (w *world) counts(want float64, name string, labels ...string) {
	w.Helper()
	blackbox.Eventually(w, fmt.Sprintf("%s%v", name, labels), func() error {
		if is, _ := w.sum(name, labels...); is != want {
			return fmt.Errorf("is %v, want %v", is, want)
		}
		return nil
	})
}

// atLeast waits until a metric has reached a value.
func (w *world) atLeast(least float64, name string, labels ...string) {
	w.Helper()
	blackbox.Eventually(w, fmt.Sprintf("%s%v", name, labels), func() error {
		if is, _ := w.sum(name, labels...); is < least {
			return fmt.Errorf("is %v, want %v at least", is, least)
		}
		return nil
	})
}

func TestDashboardsFindTheirMetrics(t *testing.T) {
	t.Parallel()
	blackbox.Long(t)
	r := startAround(t, redistest.Start(t).Addr())
	gone := r.leaveBehind(t)
	w := begin(t, r, blackbox.Env("DEPLOYMENT_VERSION=v7"), blackbox.Args("--compat-retry-delay", "1s"))
	client, category := uuid(), []string{"category", "NEW_RIDE_AVAILABLE"}
	never := entry("expired before it was sent")
	never.TTL = redispub.ISO(time.Now().Add(-time.Minute))
	w.publish(client, never)
	w.online(client)
	w.counts(1, "connected_clients")
	w.counts(1, "expired_notifications", append(category, "reason", "no_consumer")...)

	// Stored an hour ago: durations since storage count an hour, and durations since the last send do not.
	other := uuid()
	hour := time.Hour
	w.appendTo(other, fmt.Sprintf("%d-0", time.Now().Add(-hour).UnixMilli()), entry("ride").Fields())
	b := w.online(other)
	b.until("ride")
	b.ack("ride", "nobody's")
	w.left(other, 0)
	w.counts(1, "delivered_notifications", category...)
	w.counts(1, "delivered_notifications", "category", "UNKNOWN")
	w.counts(1, "notification_duration_seconds_count", "ack", "ACK", "source", "client", "version", "v7")
	if unacked, _ := w.sum("notification_duration_seconds_sum", "ack", "NACK", "source", "catchup", "version", "v7"); unacked < hour.Seconds() {
		t.Errorf("from storing to sending took %v s, want an hour", unacked)
	}
	if acked, _ := w.sum("notification_duration_seconds_sum", "ack", "ACK"); acked >= hour.Seconds() {
		t.Errorf("from sending to the acknowledgement took %v s", acked)
	}
	w.publish(other, entry("fresh"))
	b.until("fresh")
	w.counts(1, "notification_duration_seconds_count", "ack", "NACK", "source", "pubsub_fresh", "version", "v7")
	w.counts(3, "total_notifications", category...)

	w.publish(other, entry("again"))
	b.until("again")
	b.until("again")
	w.atLeast(1, "retried_notifications", category...)

	w.expireSent(client, category)
	w.counts(2, "connected_clients")
	b.cut()
	w.counts(1, "connected_clients")
	for name, labels := range map[string][]string{
		"notification_client_connection_duration_count": {"status"},
		"grpc_request_duration_seconds_count":           {"method", "handler", "status_code", "code", "version"},
		"channel_delay_count":                           {"version", "name"},
	} {
		w.hasLabels(name, labels)
	}
	w.cleanedUp(gone)
}

// orphans is the category of expired entries whose client stays away.
const orphans = "ORPHANS"

// leaveBehind adds two entries to Redis before the service starts: an expired one and another.
func (r *around) leaveBehind(t *testing.T) (client string) {
	t.Helper()
	client = uuid()
	expired, good := entry("expired"), entry("good")
	expired.TTL, expired.Category, good.Category = redispub.ISO(time.Now().Add(-time.Hour)), orphans, orphans
	newWorld(t, &world{redis: r}).publish(client, expired, good)
	return client
}

// cleanedUp waits until the expired entry is deleted. The service searches for such entries at its start, and every minute.
func (w *world) cleanedUp(client string) {
	w.Helper()
	blackbox.EventuallyWithin(w, 3*time.Minute, "cleaning up", func() error {
		if n, _ := w.sum("expired_notifications", "category", orphans, "reason", "no_consumer"); n != 1 {
			return fmt.Errorf("%v are counted, want 1", n)
		}
		return nil
	})
	w.left(client, 1)
}

// hasLabels waits until a metric exists, and compares the names of its labels.
func (w *world) hasLabels(name string, labels []string) {
	w.Helper()
	blackbox.Eventually(w, name, func() error {
		for _, s := range w.samples() {
			if s.name != name {
				continue
			}
			for _, l := range labels {
				if _, ok := s.labels[l]; !ok {
					return fmt.Errorf("%s has the labels %v, not %s", name, s.labels, l)
				}
			}
			if len(s.labels) != len(labels) {
				return fmt.Errorf("%s has the labels %v, want %v", name, s.labels, labels)
			}
			return nil
		}
		return fmt.Errorf("there is none")
	})
}

// expireSent lets an entry expire after it was sent. It retries with longer lives until the entry is sent in time.
func (w *world) expireSent(client string, category []string) {
	w.Helper()
	timeout, noConsumer := append(category[:len(category):len(category)], "reason", "timeout"), append(category[:len(category):len(category)], "reason", "no_consumer")
	for life := 2 * time.Second; life < blackbox.Patience; life *= 2 {
		before, _ := w.sum("expired_notifications", noConsumer...)
		short := entry("expires after " + life.String())
		short.TTL = redispub.ISO(time.Now().Add(life))
		w.publish(client, short)
		w.left(client, 0)
		sent := 0.0
		blackbox.Eventually(w, "expiry", func() error {
			unsent, _ := w.sum("expired_notifications", noConsumer...)
			if sent, _ = w.sum("expired_notifications", timeout...); sent == 0 && unsent == before {
				return fmt.Errorf("%s is not counted", short.ID)
			}
			return nil
		})
		if sent == 1 {
			return
		}
	}
	w.Error("nothing that was sent is counted as expired")
}
