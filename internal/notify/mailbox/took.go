package mailbox

import "github.com/prometheus/client_golang/prometheus"

// Histogram buckets in seconds for the time that notifications take: from milliseconds over an open connection to a week for a recipient
// that was away.
var spans = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 3600, 6 * 3600, 24 * 3600, 7 * 24 * 3600}

// NewDelivered makes the histogram of the time until notifications reach a channel: for live, until the first write to a connection; for
// the others, until the provider has accepted a step's message. Each channel has one histogram, wherever the time is measured.
func NewDelivered(channel string) prometheus.Histogram {
	return ofChannel(channel, "godwit_notification_delivered_seconds",
		"From when a notification was published, or was due, to when it was first written to a connection (live) or its provider took it, since start.")
}

// NewAcked makes the histogram of the time until notifications are acknowledged: over a connection (live), or by a message of the channel.
func NewAcked(channel string) prometheus.Histogram {
	return ofChannel(channel, "godwit_notification_acked_seconds",
		"From when a notification was published, or was due, to when it was acknowledged over a connection (live) or by the channel's message, since start.")
}

func ofChannel(channel, name, help string) prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: name, Help: help, Buckets: spans, ConstLabels: prometheus.Labels{"channel": channel}, // a constant label, so that several parts may register histograms of the same name
	})
}
