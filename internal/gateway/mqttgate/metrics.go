package mqttgate

import (
	"strconv"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"godwit.dev/godwit/internal/gateway/mqttgate/wire"
)

// counts are plain atomics, read when metrics are scraped.
type counts struct {
	in       [16]atomic.Uint64 // packets by type
	sent     [3]atomic.Uint64  // PUBLISH packets by QoS
	connects atomic.Uint64
	refused  atomic.Uint64
	broken   atomic.Uint64
	denied   atomic.Uint64
	answered atomic.Uint64
	large    atomic.Uint64
	dropped  atomic.Uint64
}

var (
	descConnects = prometheus.NewDesc("godwit_mqtt_connects_total", "MQTT clients that were accepted since start.", nil, nil)
	descRefused  = prometheus.NewDesc("godwit_mqtt_refused_total", "MQTT clients that were refused since start.", nil, nil)
	descBroken   = prometheus.NewDesc("godwit_mqtt_protocol_errors_total", "MQTT connections that ended because the client broke the protocol, since start.", nil, nil)
	descIn       = prometheus.NewDesc("godwit_mqtt_packets_received_total", "MQTT packets received since start, by type.", []string{"type"}, nil)
	descSent     = prometheus.NewDesc("godwit_mqtt_messages_sent_total", "MQTT messages sent to clients since start, by QoS.", []string{"qos"}, nil)
	descDenied   = prometheus.NewDesc("godwit_mqtt_publishes_denied_total", "Messages of MQTT clients that were not published, since start.", nil, nil)
	descAnswered = prometheus.NewDesc("godwit_mqtt_publishes_acknowledged_total", "Messages of MQTT clients that were published and acknowledged, since start.", nil, nil)
	descLarge    = prometheus.NewDesc("godwit_mqtt_too_large_total", "Messages that were larger than an MQTT client takes, since start.", nil, nil)
	descDropped  = prometheus.NewDesc("godwit_mqtt_queue_dropped_total", "Messages of topics that a device which stays away did not get because its mailbox is full, since start.", nil, nil)
	descKept     = prometheus.NewDesc("godwit_mqtt_sessions", "MQTT sessions that outlast their connections, by whether the client is connected or away.", []string{"client"}, nil)
)

// Describe implements prometheus.Collector.
func (g *Gateway) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descConnects, descRefused, descBroken, descIn, descSent, descDenied, descAnswered, descLarge, descDropped, descKept} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (g *Gateway) Collect(ch chan<- prometheus.Metric) {
	count := func(d *prometheus.Desc, v *atomic.Uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v.Load()), labels...)
	}
	c := &g.counts
	count(descConnects, &c.connects)
	count(descRefused, &c.refused)
	count(descBroken, &c.broken)
	count(descDenied, &c.denied)
	count(descAnswered, &c.answered)
	count(descLarge, &c.large)
	count(descDropped, &c.dropped)
	for t := wire.CONNECT; t <= wire.AUTH; t++ {
		count(descIn, &c.in[t], t.String())
	}
	for qos := range c.sent {
		count(descSent, &c.sent[qos], strconv.Itoa(qos))
	}
	here, away := g.kept.counts()
	ch <- prometheus.MustNewConstMetric(descKept, prometheus.GaugeValue, float64(here), "connected")
	ch <- prometheus.MustNewConstMetric(descKept, prometheus.GaugeValue, float64(away), "away")
}
