package godwit

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Handler handles one notification. Returning nil acknowledges it, which settles it for good. An error requests redelivery later; NackAfter
// sets when. The context ends when Listen's does, and with cause ErrRecalled when the notification was settled elsewhere or withdrawn
// meanwhile.
type Handler func(ctx context.Context, n *Notification) error

// NackAfter returns an error for a Handler that requests redelivery after d, 0 to 24 h. The server gets err's text and counts such errors:
// after the fifth one, the notification fails. If err is nil, redelivery is only postponed.
func NackAfter(d time.Duration, err error) error { return &nackError{d, err} }

type nackError struct {
	after time.Duration
	err   error
}

// RedeliverAfter returns the delay passed to NackAfter.
func (e *nackError) RedeliverAfter() time.Duration { return e.after }

func (e *nackError) Error() string { return fmt.Sprintf("redeliver after %s: %v", e.after, e.err) }
func (e *nackError) Unwrap() error { return e.err }

// wait returns the delay for the frame: at least 1 ms, because 0 would let the server choose.
func (e *nackError) wait() time.Duration { return min(max(e.after, time.Millisecond), 24*time.Hour) }

func (e *nackError) reason() string {
	if e.err == nil {
		return ""
	}
	return cut(e.err.Error())
}

// ListenOption changes how Listen works.
type ListenOption func(*listenOptions)

type listenOptions struct {
	group, device string
	window        int
	heartbeat     time.Duration
	ackDelay      time.Duration
	concurrency   int
	peek, observe bool
	objects       *Objects
	topics        *Topics
	subjects      []string
	queue         string
	answer        RequestHandler
	recalled      func(ids []string)
	inbox         func(InboxNews)
	held          func() []string
	connected     func(Welcome)
	inEffect      func()
	disconnected  func(err error, retry time.Duration)
	failed        func(err error)
}

// Device names the device; notifications with ack "all" wait for each device. A second session of the same device closes the first one,
// whose Listen then returns a *RefusedError with reason replaced.
func Device(name string) ListenOption { return func(o *listenOptions) { o.device = name } }

// Group names the group of the session's objects.
func Group(name string) ListenOption { return func(o *listenOptions) { o.group = name } }

// Window limits the number of unacknowledged notifications, 1 to 1,024; default 64.
func Window(n int) ListenOption { return func(o *listenOptions) { o.window = n } }

// Heartbeat requests a heartbeat interval, 5 s to 24 h; the server's default is 30 s. A connection that is silent for two intervals is
// closed.
func Heartbeat(d time.Duration) ListenOption { return func(o *listenOptions) { o.heartbeat = d } }

// AckDelay sets how long acknowledgements wait so that several share a frame, 0 to 1 s; default 5 ms; with 0 none waits. After a pause of
// at least this length, the first one is sent at once; all are sent once half of the window waits. If the program is killed meanwhile,
// unacknowledged notifications are delivered again.
func AckDelay(d time.Duration) ListenOption { return func(o *listenOptions) { o.ackDelay = d } }

// Concurrency sets the number of handlers that run at once; default 1, which preserves the order.
func Concurrency(n int) ListenOption { return func(o *listenOptions) { o.concurrency = max(n, 1) } }

// Peek only observes, with an API key of role read instead of a token: nothing is acknowledged, and the recipient does not count as online.
func Peek() ListenOption { return func(o *listenOptions) { o.peek = true } }

// Observe only watches, with the client's own token: nothing is acknowledged, and the recipient does not count as connected by it. So does a
// page that shows an inbox.
func Observe() ListenOption { return func(o *listenOptions) { o.observe = true } }

// silent reports whether nothing is acknowledged.
func (o *listenOptions) silent() bool { return o.peek || o.observe }

// OnRecall sets a function that is called with the ids of notifications that need no longer be shown: they were settled elsewhere, replaced
// or withdrawn. The connection blocks until it returns, as for the other callbacks.
func OnRecall(f func(ids []string)) ListenOption { return func(o *listenOptions) { o.recalled = f } }

// OnInbox sets a function that is called when the recipient's inbox has changed, here or elsewhere, and at the start of every session if it has
// or had items.
func OnInbox(f func(InboxNews)) ListenOption { return func(o *listenOptions) { o.inbox = f } }

// Held sets a function that returns the notifications still shown. It is called at every connect; the server recalls those that were
// settled meanwhile.
func Held(f func() []string) ListenOption { return func(o *listenOptions) { o.held = f } }

// OnConnect sets a function that is called at the start of every session.
func OnConnect(f func(Welcome)) ListenOption { return func(o *listenOptions) { o.connected = f } }

// OnServing sets a function that is called on every connection when all subjects of Serve are in effect: later requests are delivered as
// long as the connection lasts. If the server refused a subject, OnError is called instead.
func OnServing(f func()) ListenOption { return func(o *listenOptions) { o.inEffect = f } }

// OnDisconnect sets a function that is called when a connection ended or could not be made, with the error and the wait until the next try.
func OnDisconnect(f func(err error, retry time.Duration)) ListenOption {
	return func(o *listenOptions) { o.disconnected = f }
}

// OnError sets a function that is called with errors that do not end the session: an *UndecodableError for an unreadable frame of the
// server, and the server's errors about frames of this client. Without it they are logged.
func OnError(f func(err error)) ListenOption { return func(o *listenOptions) { o.failed = f } }

// maxWindow is the largest window that a server grants, usualWindow the server's default.
const (
	maxWindow   = 1024
	usualWindow = 64
)

// usualAckDelay is short compared with the server's disk writes, maxAckDelay compared with the time until redelivery.
const (
	usualAckDelay = 5 * time.Millisecond
	maxAckDelay   = time.Second
)

// stable is the duration after which a session's end is followed by a connect at once: otherwise, a server that closes right after its
// welcome would be called in a loop.
const stable = 5 * time.Second

// Listen receives a recipient's notifications until ctx ends, and returns ctx's error. When a connection fails or ends, it connects again:
// at once after a stable one, then after random waits of up to 1 s, doubling to 5 min, or when the server said. However often a
// notification is delivered, it is handled once, within the last 8,192. Listen gives up, with a *RefusedError, only when the server refuses
// the client; it returns after the running handlers have returned. Callbacks and handlers must not cancel Listen and then wait for it.
func (c *Client) Listen(ctx context.Context, recipient string, handle Handler, opts ...ListenOption) error {
	o := listenOptions{concurrency: 1, ackDelay: usualAckDelay}
	for _, opt := range opts {
		opt(&o)
	}
	if o.window < 0 || o.window > maxWindow {
		return fmt.Errorf("listen: window %d is not between 1 and %d", o.window, maxWindow)
	}
	if o.ackDelay < 0 || o.ackDelay > maxAckDelay {
		return fmt.Errorf("listen: ack delay %s is not between 0 and %s", o.ackDelay, maxAckDelay)
	}
	if o.peek && c.key == "" {
		return errors.New("listen: peek needs an API key with role read")
	}
	return newListener(c, recipient, handle, o).run(ctx)
}
