package cluster

import "godwit.dev/godwit/internal/notify/mailbox"

// KindTable is the kind of messages in which nodes report which recipients are connected to them.
const KindTable = byte(kindTable)

// Keeps reports whether this node keeps the name of a recipient of another one.
func (c *Cluster) Keeps(app, recipient string) bool {
	p := &c.presence
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.backups.of(mailbox.Address{App: app, Recipient: recipient})) > 0
}

// Claims reports whether this node claims that a recipient came or left.
func (c *Cluster) Claims(app, recipient string) bool {
	p := &c.presence
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.claims.open[mailbox.Address{App: app, Recipient: recipient}] != nil
}
