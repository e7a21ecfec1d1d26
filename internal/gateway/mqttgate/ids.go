package mqttgate

import (
	"slices"

	"godwit.dev/godwit/internal/gateway/mqttgate/wire"
	"godwit.dev/godwit/internal/messaging/topic"
)

// A subscription identifier comes back with every message that its filter matches (section 3.3.4), so that a client need not match topics itself.

// identified is a filter with an identifier.
type identified struct {
	filter   string
	about    target
	patterns []string
	id       uint32
}

// identify notes the identifier of a subscription; 0: it has none any more.
func (c *conn) identify(s *subscription) {
	if s.id == 0 && !c.has(withIDs) {
		return
	}
	_, inner, _ := cutShare(s.filter)
	f := identified{filter: s.filter, id: s.id}
	f.about, _ = targetOf(inner)
	f.patterns, _ = toPatterns(inner) // was granted
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.busy()
	m.ids = slices.DeleteFunc(m.ids, func(o identified) bool { return o.filter == s.filter })
	if s.id > 0 {
		m.ids = append(m.ids, f)
		c.set(withIDs)
	} else if len(m.ids) == 0 {
		c.unset(withIDs)
		c.tidy()
	}
}

// idsOf appends the identifiers of the subscriptions that match a name, if there are any.
func (c *conn) idsOf(dst []byte, name string) []byte {
	if !c.has(withIDs) {
		return dst
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.more.appendIDs(dst, name)
}

// appendIDs is idsOf. c.mu is held.
func (m *extra) appendIDs(dst []byte, name string) []byte {
	if m == nil || len(m.ids) == 0 {
		return dst
	}
	about, _ := targetOf(name)
	name = toTopic(name)
	for i := range m.ids {
		f := &m.ids[i]
		if f.about == about && slices.ContainsFunc(f.patterns, func(p string) bool { return topic.Match(p, name) }) {
			dst = wire.AppendNumber(dst, wire.SubscriptionID, f.id)
		}
	}
	return dst
}
