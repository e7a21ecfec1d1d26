package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	godwit "godwit.dev/godwit/clients/go"
	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/notify/session"
)

// maxReason limits how many bytes of a handler's error are stored with the notification.
const maxReason = 200

// Listen passes a recipient's notifications to handle, one after the other, until ctx ends, and then returns its cause. If handle returns
// nil, the notification is acknowledged. Otherwise it is sent again, after the time given by godwit.NackAfter or a time that grows with
// each attempt. Other sessions of the recipient, over any gateway, are not affected. If the server ends the session, Listen returns a
// *godwit.RefusedError.
func (s *Server) Listen(ctx context.Context, app, recipient string, handle godwit.Handler) error {
	fail := func(err error) error { return fmt.Errorf("listen as %s: %w", recipient, err) }
	if s.begun() == nil {
		return fail(errNotStarted)
	}
	token, _, err := s.host.Access.MintToken(app, access.TokenRequest{Recipient: recipient, TTL: access.MaxTokenTTL})
	if err != nil {
		return fail(asError(err))
	}
	l := &link{wake: make(chan struct{}, 1)}
	from := session.Peer{Claim: access.Claim{App: app, Token: token}, Addr: netip.IPv6Loopback()}
	l.session = s.host.Hub.Accept(l, from)
	defer l.session.Closed()
	l.session.Frame(&frame.Client{Kind: frame.KindHello, Hello: &frame.Hello{}})
	for {
		n, bye := l.next()
		switch {
		case n != nil:
			l.handled(n.ID, handle(ctx, n))
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			continue
		case bye != "":
			return fail(&godwit.RefusedError{Reason: bye})
		}
		select {
		case <-l.wake:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// link is the transport of a session within the process.
type link struct {
	session *session.Session
	wake    chan struct{} // receives an element when there is a notification or an end to handle

	mu   sync.Mutex
	got  []*godwit.Notification // bounded by the session's window
	over bool
	bye  string // why the server has ended the session
}

var _ session.Transport = (*link)(nil)

// next removes and returns the oldest notification. If there will be none, bye is the reason; both are zero if there is none yet.
func (l *link) next() (n *godwit.Notification, bye string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.got) > 0 {
		n, l.got = l.got[0], l.got[1:]
		return n, ""
	}
	if l.over {
		return nil, l.bye
	}
	return nil, ""
}

// handled reports to the session how a notification was handled.
func (l *link) handled(id string, err error) {
	f := &frame.Client{Kind: frame.KindAck, IDs: [][]byte{[]byte(id)}}
	if err != nil {
		f.Kind = frame.KindNack
		var later interface{ RedeliverAfter() time.Duration }
		if errors.As(err, &later) {
			f.After = later.RedeliverAfter()
		}
		reason := err.Error()
		f.Reason = []byte(reason[:min(len(reason), maxReason)])
	}
	l.session.Frame(f)
}

// Format implements session.Transport.
func (l *link) Format() frame.Format { return frame.JSON }

// Write implements session.Transport. It ignores frames about objects, topics and requests, which Listen does not use.
func (l *link) Write(k frame.ServerKind, head, tail []byte) bool {
	if k != frame.ServerNotification {
		return true
	}
	var f struct {
		Notification json.RawMessage `json:"notification"`
	}
	if err := json.Unmarshal(slices.Concat(head, tail), &f); err != nil {
		return false // cannot happen: this server encoded it
	}
	n, err := godwit.ReadNotification(f.Notification)
	if err != nil {
		return false // likewise
	}
	l.mu.Lock()
	l.got = append(l.got, n)
	l.mu.Unlock()
	l.signal()
	return true
}

func (l *link) signal() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Probe implements session.Transport: a client in the same process is always alive.
func (l *link) Probe() { l.session.Alive() }

// Close implements session.Transport.
func (l *link) Close(g frame.Goodbye) {
	l.mu.Lock()
	l.over, l.bye = true, g.Reason
	l.mu.Unlock()
	l.signal()
}

// Pause implements session.Transport: nothing is sent while a hello is verified.
func (l *link) Pause() {}

// Resume implements session.Transport.
func (l *link) Resume() {}

// Name implements session.Transport.
func (l *link) Name() string { return "local" }
