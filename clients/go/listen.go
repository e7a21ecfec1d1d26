package godwit

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Handler handles one notification. Returning nil acknowledges it, which settles it for good. An error asks for
// redelivery after a while; NackAfter says after which. The context ends when Listen's does, and with cause
// ErrRecalled when the notification was settled elsewhere or withdrawn meanwhile.
type Handler func(ctx context.Context, n *Notification) error

// NackAfter is a Handler's error for redelivery after d, 0 to 24 h. The server gets the error's text and counts: a
// notification that came back with a reason five times is set aside as failed. With a nil error it is only postponed.
func NackAfter(d time.Duration, err error) error { return &nackError{d, err} }

type nackError struct {
	after time.Duration
	err   error
}

// RedeliverAfter is the time that NackAfter was given.
func (e *nackError) RedeliverAfter() time.Duration { return e.after }

func (e *nackError) Error() string { return fmt.Sprintf("redeliver after %s: %v", e.after, e.err) }
func (e *nackError) Unwrap() error { return e.err }

// wait is the time to put into a frame: at least 1 ms, since 0 would leave the time to the server.
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
	peek          bool
	objects       *Objects
	topics        *Topics
	subjects      []string
	queue         string
	answer        RequestHandler
	recalled      func(ids []string)
	held          func() []string
	connected     func(Welcome)
	inEffect      func()
	disconnected  func(err error, retry time.Duration)
	failed        func(err error)
}

// Device names the device, so that a notification with ack "all" waits for it. A second session of the same device
// closes the first, whose Listen then returns a *RefusedError with reason replaced.
func Device(name string) ListenOption { return func(o *listenOptions) { o.device = name } }

// Group names the group of the session's objects.
func Group(name string) ListenOption { return func(o *listenOptions) { o.group = name } }

// Window bounds the notifications sent and not yet acknowledged, 1 to 1,024; default 64.
func Window(n int) ListenOption { return func(o *listenOptions) { o.window = n } }

// Heartbeat asks for a heartbeat, 5 s to 24 h; the server's default is 30 s. A connection that is silent for two is
// given up.
func Heartbeat(d time.Duration) ListenOption { return func(o *listenOptions) { o.heartbeat = d } }

// AckDelay is how long acknowledgements wait so that several share a frame, 0 to 1 s; default 5 ms, 0: none waits. The
// first one after as long a pause leaves at once, and all leave once half of the window waits. A program that is killed
// meanwhile gets what it has not acknowledged again.
func AckDelay(d time.Duration) ListenOption { return func(o *listenOptions) { o.ackDelay = d } }

// Concurrency runs up to n handlers at once; default 1, which keeps the order.
func Concurrency(n int) ListenOption { return func(o *listenOptions) { o.concurrency = max(n, 1) } }

// Peek only observes, with an API key of role read instead of a token: nothing is acknowledged, and the recipient
// does not count as online.
func Peek() ListenOption { return func(o *listenOptions) { o.peek = true } }

// OnRecall sets a function that is called with notifications that need no longer be shown: settled elsewhere, replaced
// or withdrawn. The connection waits for it, as for the other callbacks.
func OnRecall(f func(ids []string)) ListenOption { return func(o *listenOptions) { o.recalled = f } }

// Held reports at every connect which notifications are still shown; those settled meanwhile are recalled.
func Held(f func() []string) ListenOption { return func(o *listenOptions) { o.held = f } }

// OnConnect sets a function that is called at the start of every session.
func OnConnect(f func(Welcome)) ListenOption { return func(o *listenOptions) { o.connected = f } }

// OnServing is called on every connection once all that Serve serves is in effect: later requests are delivered, as long
// as the connection lasts. It is not called if the server refused a subject; OnError is.
func OnServing(f func()) ListenOption { return func(o *listenOptions) { o.inEffect = f } }

// OnDisconnect is told why a connection ended, or could not be made, and when the next is tried.
func OnDisconnect(f func(err error, retry time.Duration)) ListenOption {
	return func(o *listenOptions) { o.disconnected = f }
}

// OnError sets a function that is called with errors that do not end the session: an *UndecodableError for a frame of the
// server that cannot be read, and the server's complaints about frames of this client. Without it they are logged.
func OnError(f func(err error)) ListenOption { return func(o *listenOptions) { o.failed = f } }

// maxWindow is the largest window that a server grants, usualWindow the one without a request.
const (
	maxWindow   = 1024
	usualWindow = 64
)

// usualAckDelay is short beside what a disk needs at the server, maxAckDelay beside when it would deliver again.
const (
	usualAckDelay = 5 * time.Millisecond
	maxAckDelay   = time.Second
)

// stable is how long a session must have lasted for the next connect to be tried at once: a server that welcomes
// and closes would otherwise be tried in a loop.
const stable = 5 * time.Second

// Listen receives a recipient's notifications until ctx ends, whose error it then returns. Connections that fail or
// end are made again: at once after one that was good, then after random waits of up to 1 s, doubling to 5 min, or
// when the server said. A notification is handled once however often it is delivered, as far as the last 8,192
// are concerned. Listen gives up, with a *RefusedError, only when the server refuses the client; it returns after
// the handlers that run have returned. Callbacks and handlers must not call Listen's cancel and wait for it.
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
