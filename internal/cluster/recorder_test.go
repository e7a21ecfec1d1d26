package cluster_test

import (
	"slices"
	"strings"
	"sync"

	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/notify/session"
)

// recorder is a client that records the frames it receives.
type recorder struct {
	*client
	mu  sync.Mutex
	raw []string
}

func (n *node) record(recipient string, f frame.Format) *recorder {
	r := &recorder{client: &client{t: n.w.t, more: make(chan struct{}, 1), f: f}}
	r.s = n.hub.Accept(r, session.Peer{})
	r.s.Frame(&frame.Client{Kind: frame.KindHello, Hello: &frame.Hello{App: "demo", Recipient: recipient}})
	r.wait("welcome")
	return r
}

func (r *recorder) Write(k frame.ServerKind, head, tail []byte) bool {
	r.mu.Lock()
	r.raw = append(r.raw, string(slices.Concat(head, tail)))
	r.mu.Unlock()
	return r.client.Write(k, head, tail)
}

func (r *recorder) text(id string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.raw {
		if strings.Contains(s, `"id":"`+id+`"`) {
			return s
		}
	}
	return ""
}
