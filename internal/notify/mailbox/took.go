package mailbox

import "github.com/prometheus/client_golang/prometheus"

// Buckets for the time that notifications take: from an open connection to a recipient that comes back after a week.
var spans = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 3600, 6 * 3600, 24 * 3600, 7 * 24 * 3600}

// NewDelivered makes the histogram of how long notifications take to a channel: live to when they are first written to a connection,
// the others to when the provider has taken the message of a step. Each channel has one, wherever it is measured.
func NewDelivered(channel string) prometheus.Histogram {
	return ofChannel(channel, "godwit_notification_delivered_seconds",
		"From when a notification was published, or was due, to when it was first written to a connection (live) or its provider took it, since start.")
}

// NewAcked makes that of how long they take until they are acknowledged: over a connection (live), or by a message of the channel.
func NewAcked(channel string) prometheus.Histogram {
	return ofChannel(channel, "godwit_notification_acked_seconds",
		"From when a notification was published, or was due, to when it was acknowledged over a connection (live) or by the channel's message, since start.")
}

func ofChannel(channel, name, help string) prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: name, Help: help, Buckets: spans, ConstLabels: prometheus.Labels{"channel": channel}, // constant, so that several parts may each have some
	})
}
