package mqttgate

import (
	"errors"
	"slices"
	"strings"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/gateway/mqttgate/wire"
	"godwit.dev/godwit/internal/messaging/topic"
)

// rights are what a client may publish. A key with role publish may publish everything; a token's claim "publish" has patterns: of topics, or
// with to, o or r as their first word of mailboxes, objects and requests.
type rights struct {
	key      string // the key's public id; empty: a token's
	patterns []string
	claim    access.Claim
	revision uint64 // of apps and keys when they were checked
}

// open are the rights of clients of a development server that show no credential: there is nothing to check again, and nothing to keep.
var open = &rights{patterns: []string{">", toLevel + ".>", objectLevel + ".>", askLevel + ".>"}}

// rights returns what the client may publish; nil: nothing. c.mu is held.
func (c *conn) rights() *rights {
	switch {
	case !c.has(publishes):
		return nil
	case c.more == nil || c.more.rights == nil:
		return open
	}
	return c.more.rights
}

// allow reports whether the client may publish to a target. r may be nil.
func (r *rights) allow(t target, rest string) bool {
	switch {
	case r == nil:
		return false
	case r.key != "":
		return true
	}
	switch t {
	case toTopics:
		return topic.WithinAny(toTopic(rest), r.patterns)
	case toMailbox:
		return r.named(toLevel, rest)
	case toObject:
		return r.named(objectLevel, rest)
	case toWorkers:
		return r.named(askLevel, rest)
	default:
		return false
	}
}

// named reports whether one of the patterns that begin with a word allows what follows it. A pattern of all topics allows no mailbox.
func (r *rights) named(word, rest string) bool {
	name := word + "." + toTopic(rest)
	return topic.CheckName("", name) == nil && slices.ContainsFunc(r.patterns, func(p string) bool {
		return strings.HasPrefix(p, word+".") && topic.Within(name, p)
	})
}

// mayPublish checks the client's rights and its key's budget. Rights are checked again after apps or keys have changed.
func (c *conn) mayPublish(t target, rest string) (wire.Reason, string) {
	const denied = "your credential does not allow to publish there"
	switch {
	case t == toNothing || t < toObject || t > toWorkers && t != toTopics:
		return wire.InvalidTopic, "clients do not publish there"
	case !c.has(publishes):
		return wire.NotAuthorized, denied
	}
	c.mu.Lock()
	r := c.rights()
	c.mu.Unlock()
	if now := c.gate.cfg.Access.Revision(); r != open && now != r.revision {
		if !c.gate.renew(r) {
			c.unset(publishes)
			return wire.NotAuthorized, denied
		}
		r.revision = now
	}
	if !r.allow(t, rest) {
		return wire.NotAuthorized, denied
	}
	if g := c.gate; g.cfg.PublishLimit != nil && g.cfg.PublishLimit(r.key, 1) > 0 {
		return wire.QuotaExceeded, "limit_publish allows this key no more now"
	}
	return wire.Success, ""
}

// renew reads a client's rights again. False: it has none any more.
func (g *Gateway) renew(r *rights) bool {
	who, err := g.cfg.Access.Known(r.claim)
	if _, unasked := errors.AsType[*access.AskError](err); unasked {
		return true // an app's own server is asked at its own intervals, so its answers have not changed
	}
	if err != nil {
		return false
	}
	r.key, r.patterns = who.Key, who.Publish
	return len(who.Publish) > 0
}
