package cluster

import (
	"encoding/json"

	"godwit.dev/godwit/internal/notify/inbox"
	"godwit.dev/godwit/internal/notify/session"
)

// changedInbox is the body of kindInbox.
type changedInbox struct {
	inbox.Count
	Revision uint64         `json:"revision"`
	Changed  []string       `json:"changed"`
	More     bool           `json:"more,omitempty"`
	Marked   []inbox.Marked `json:"marked,omitempty"`
}

// Hold implements mailbox.Router for the connections of this node.
func (c *Cluster) Hold(changed []inbox.Change) (release func()) { return c.hub.Load().Hold(changed) }

// Inboxes implements mailbox.Router.
func (c *Cluster) Inboxes(changed []inbox.Change) {
	c.hub.Load().Inboxes(changed)
	if c.alone() {
		return
	}
	var room [4]string
	for i := range changed {
		in := &changed[i]
		if to := c.subjects(room[:0], in.App, in.Recipient); len(to) > 0 {
			_ = c.publishTo(to, message{
				kind: kindInbox, app: in.App, recipient: in.Recipient, body: text(changedInbox{Count: in.Count, Revision: in.Revision, Changed: in.Changed, More: in.More, Marked: in.Marked}),
			})
		}
	}
}

func (c *Cluster) gotInbox(hub *session.Hub, m *message) {
	var in changedInbox
	if err := json.Unmarshal(m.body, &in); err != nil {
		c.unreadable(hub, m)
		return
	}
	hub.Inboxes([]inbox.Change{{App: m.app, Recipient: m.recipient, Count: in.Count, Revision: in.Revision, Changed: in.Changed, More: in.More, Marked: in.Marked}})
}
