package mqttgate

import (
	"hash/maphash"
	"slices"
)

// A client may ask that its own messages do not come back to it (No Local, section 3.8.3.1): a bridge would send them round for ever. Messages
// travel over the bus, which does not know their publisher. So the connection remembers what it has published last, and drops one message of
// the same topic and content for each. It may drop that of another client instead, and then gets its own, which is the same.

// maxOwn is how many published messages a connection remembers; older ones came back or never will.
const maxOwn = 256

var localSeed = maphash.MakeSeed()

func localHash(topic string, payload []byte) uint64 {
	var h maphash.Hash
	h.SetSeed(localSeed)
	_, _ = h.WriteString(topic) // never fails
	_ = h.WriteByte(0)
	_, _ = h.Write(payload)
	return h.Sum64()
}

// sends notes a message that the client publishes.
func (c *conn) sends(topic string, payload []byte) {
	if !c.has(noLocal) {
		return
	}
	h := localHash(topic, payload)
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.busy()
	if len(m.own) >= maxOwn {
		m.own = slices.Delete(m.own, 0, len(m.own)-maxOwn+1)
	}
	m.own = append(m.own, h)
}

// isOwn reports whether a message is one that the client has published, and forgets it.
func (c *conn) isOwn(topic string, payload []byte) bool {
	if !c.has(noLocal) {
		return false
	}
	h := localHash(topic, payload)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.more == nil {
		return false
	}
	i := slices.Index(c.more.own, h)
	if i >= 0 {
		c.more.own = slices.Delete(c.more.own, i, i+1)
		c.tidy()
	}
	return i >= 0
}
