package cluster

import "godwit.dev/godwit/internal/notify/mailbox"

// KindTable is the kind of messages by which nodes report their connected recipients.
const KindTable = byte(kindTable)

// Keeps reports whether this node, as a backup, has the name of another node's recipient.
func (c *Cluster) Keeps(app, recipient string) bool {
	p := &c.presence
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.backups.of(mailbox.Address{App: app, Recipient: recipient})) > 0
}

// Claims reports whether this node has a claim that a recipient came or left.
func (c *Cluster) Claims(app, recipient string) bool {
	p := &c.presence
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.claims.open[mailbox.Address{App: app, Recipient: recipient}] != nil
}
