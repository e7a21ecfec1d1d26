package access

import "godwit.dev/godwit/internal/messaging/topic"

// Rights are what somebody may do with the topics and requests of their app. Every way in asks them and nothing else:
// HTTP, WebSocket, gRPC, server-sent events, poll, the gateway and the NATS listener. Each field lists the patterns that
// are allowed; nil: none.
type Rights struct {
	Publish   []string // topics to publish to
	Subscribe []string // topics to subscribe to
	Request   []string // subjects to ask
	Serve     []string // subjects to answer
}

// CanPublish reports whether messages may be published to a topic.
func (r Rights) CanPublish(name string) bool { return topic.WithinAny(name, r.Publish) }

// CanSubscribe reports whether all topics of a pattern may be subscribed to, alone or in a queue.
func (r Rights) CanSubscribe(pattern string) bool { return topic.WithinAny(pattern, r.Subscribe) }

// CanRequest reports whether a subject may be asked.
func (r Rights) CanRequest(name string) bool { return topic.WithinAny(name, r.Request) }

// CanServe reports whether all subjects of a pattern may be answered, alone or in a queue.
func (r Rights) CanServe(pattern string) bool { return topic.WithinAny(pattern, r.Serve) }

// Rights of an API key are those of its roles, in its whole app: publish publishes and asks, read subscribes, worker
// serves.
func (p Principal) Rights() Rights {
	var r Rights
	if p.Roles.Has(Publish) {
		r.Publish, r.Request = all, all
	}
	if p.Roles.Has(Read) {
		r.Subscribe = all
	}
	if p.Roles.Has(Worker) {
		r.Serve = all
	}
	return r
}

// Rights of a client are those of its credential: it subscribes and serves, and publishes and asks nothing.
func (c Client) Rights() Rights { return Rights{Subscribe: c.Topics, Serve: c.Serve} }

// topicPatterns puts the recipient in place of {sub}, as one token. An entry that is not a pattern after that allows
// nothing. An empty list and none are the same.
func topicPatterns(ps []string, sub string) []string {
	var out []string
	for _, p := range ps {
		if p = topic.Fill(p, sub); topic.CheckPattern("", p) == nil {
			out = append(out, p)
		}
	}
	return out
}
