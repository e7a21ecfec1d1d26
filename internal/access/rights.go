package access

import "godwit.dev/godwit/internal/messaging/topic"

// Rights are a caller's permissions for the topics and requests of its app. All interfaces check only these: HTTP, WebSocket, gRPC,
// server-sent events, poll, the gateway and the NATS listener. Each field lists the allowed patterns; nil: none.
type Rights struct {
	Publish   []string // topics to publish to
	Subscribe []string // topics to subscribe to
	Request   []string // subjects to ask
	Serve     []string // subjects to answer
}

// CanPublish reports whether messages may be published to a topic.
func (r Rights) CanPublish(name string) bool { return topic.WithinAny(name, r.Publish) }

// CanSubscribe reports whether a client may subscribe to all topics of a pattern, alone or in a queue.
func (r Rights) CanSubscribe(pattern string) bool { return topic.WithinAny(pattern, r.Subscribe) }

// CanRequest reports whether requests to a subject are allowed.
func (r Rights) CanRequest(name string) bool { return topic.WithinAny(name, r.Request) }

// CanServe reports whether a client may answer requests to all subjects of a pattern, alone or in a queue.
func (r Rights) CanServe(pattern string) bool { return topic.WithinAny(pattern, r.Serve) }

// Rights returns the rights of an API key, which follow from its roles and cover its whole app: publish may publish and make requests, read
// may subscribe, worker may serve.
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

// Rights returns the rights in the client's credential: it may subscribe and serve, but not publish or make requests.
func (c Client) Rights() Rights { return Rights{Subscribe: c.Topics, Serve: c.Serve} }

// topicPatterns replaces {sub} by the recipient, as one token. It drops an entry that is then not a pattern. An empty list has the same
// effect as none.
func topicPatterns(ps []string, sub string) []string {
	var out []string
	for _, p := range ps {
		if p = topic.Fill(p, sub); topic.CheckPattern("", p) == nil {
			out = append(out, p)
		}
	}
	return out
}
