package pushgate

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

// counts are the gateway's metrics.
type counts struct {
	hellos, broken, nacks, swept prometheus.Counter
	messages, refusals           *prometheus.CounterVec
	acks, registrations, leaves  *prometheus.CounterVec
	stored, dropped              prometheus.Counter // of messages
}

func newCounts() counts {
	one := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	by := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	c := counts{
		hellos:        one("godwit_push_service_hellos_total", "Devices of the push service that connected since start."),
		broken:        one("godwit_push_service_broken_total", "Connections of devices that ended since start because a message was not of the protocol."),
		nacks:         one("godwit_push_service_nacks_total", "Messages that devices could not take since start."),
		swept:         one("godwit_push_service_forgotten_total", "Devices that were deleted since start because they had stayed away for too long."),
		messages:      by("godwit_push_service_messages_total", "Messages of senders that the push service accepted since start: stored, or dropped since they had TTL 0 and the device was away.", "outcome"),
		refusals:      by("godwit_push_service_refusals_total", "Requests of senders that the push service refused since start, by errno.", "errno"),
		acks:          by("godwit_push_service_acks_total", "Acknowledgements of devices since start, by code: 100 shown, 101 not decrypted, 102 not shown.", "code"),
		registrations: by("godwit_push_service_registrations_total", "Registrations of channels since start, and their ends, by status.", "kind", "status"),
		leaves:        by("godwit_push_service_unregister_codes_total", "Ends of channels since start, by the reason that the device gave: 200 by its user, 201 quota, 202 permission revoked.", "code"),
	}
	c.stored, c.dropped = c.messages.WithLabelValues("stored"), c.messages.WithLabelValues("dropped")
	return c
}

// collectors lists all metrics.
func (c *counts) collectors() []prometheus.Collector {
	return []prometheus.Collector{c.hellos, c.broken, c.nacks, c.swept, c.messages, c.refusals, c.acks, c.registrations, c.leaves}
}

func (c *counts) ack(code int) {
	c.acks.WithLabelValues(known(code, codeDelivered, codeNotShown)).Inc()
}

func (c *counts) leave(code int) { c.leaves.WithLabelValues(known(code, 200, 202)).Inc() }

func (c *counts) refused(errno int) { c.refusals.WithLabelValues(strconv.Itoa(errno)).Inc() }

func (c *counts) change(kind string, status int) {
	c.registrations.WithLabelValues(kind, strconv.Itoa(status)).Inc()
}

// known is a code as a label: the first of the protocol's if none was given, and other for one that the protocol does not have.
func known(code, first, last int) string {
	switch {
	case code == 0:
		return strconv.Itoa(first)
	case code < first || code > last:
		return "other"
	}
	return strconv.Itoa(code)
}
