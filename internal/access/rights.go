package access

import "godwit.dev/godwit/internal/messaging/topic"

// Rights are a caller's permissions for the topics and requests of its app. All interfaces check these and nothing else:
// HTTP, WebSocket, gRPC, server-sent events, poll, the gateway and the NATS listener. Each field lists the allowed
// patterns; nil: none.
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

// CanRequest reports whether requests to a subject are allowed.
func (r Rights) CanRequest(name string) bool { return topic.WithinAny(name, r.Request) }

// CanServe reports whether all subjects of a pattern may be answered, alone or in a queue.
func (r Rights) CanServe(pattern string) bool { return topic.WithinAny(pattern, r.Serve) }

// Rights of an API key follow from its roles, for its whole app: publish may publish and make requests, read may
// subscribe, worker may serve.
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

// Rights of a client are those of its credential: it may subscribe and serve, but not publish or make requests.
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
