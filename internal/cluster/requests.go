package cluster

import (
	"context"
	"encoding/json"
	"time"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/session"
)

// answerNewest sets the handler that reports the newest session of a recipient here.
func (c *Cluster) answerNewest(hub *session.Hub) {
	answerAs(c, whatNewest, func(_ context.Context, q askRecipients) (any, error) {
		n := newest{Boot: c.cfg.Boot}
		for _, r := range q.Recipients {
			if s := hub.Newest(q.App, r, q.Device); s != nil {
				n.SinceMS = max(n.SinceMS, s.Since().UnixMilli())
			}
		}
		return n, nil
	})
}

// NewestNode implements request.Elsewhere: it returns the node with the newest session of a recipient, if that session is newer than those
// here. A node that has a session of the recipient knows about its sessions elsewhere; a node without one asks all others.
func (c *Cluster) NewestNode(ctx context.Context, app, recipient, device string, since time.Time) (boot string) {
	if c.alone() {
		return ""
	}
	if !since.IsZero() {
		return c.presence.newest(mailbox.Address{App: app, Recipient: recipient}, device, since.UnixMilli())
	}
	best := newest{}
	c.askAll(ctx, whatNewest, askRecipients{App: app, Recipients: []string{recipient}, Device: device}, func(body json.RawMessage) {
		var n newest
		if json.Unmarshal(body, &n) == nil && n.SinceMS > best.SinceMS {
			best = n
		}
	})
	return best.Boot
}

// whatRequest is a request to a recipient, answered by AnswerRequests' handler.
const (
	whatRequest    = "request"
	requestsAtOnce = 1024
	requestLasts   = 61 * time.Second // the longest deadline of a request, plus the transit time between nodes
)

// Ask implements request.Elsewhere.
func (c *Cluster) Ask(ctx context.Context, node string, question any) (json.RawMessage, error) {
	return c.AskOne(ctx, node, whatRequest, question)
}

// AnswerRequests sets the handler of requests that other nodes send for recipients connected here.
func (c *Cluster) AnswerRequests(do Handler) { c.Answer(whatRequest, requestLasts, requestsAtOnce, do) }
