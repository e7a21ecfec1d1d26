package godwit

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
)

// Link is a connection for a session by a [Transport]. It carries whole frames, in protobuf. At most one goroutine calls Send at a time, and
// one other calls Receive; Abort ends both calls.
type Link interface {
	// Send sends frames, which it does not keep.
	Send(frames ...[]byte) error
	// Receive returns the next frame, which is valid until the next call. After the server has closed the session the error is a *[LinkClosedError].
	Receive() ([]byte, error)
	// Finish closes the link after the sent frames have reached the server. Receive must be running meanwhile.
	Finish()
	// Abort closes the link at once. It may be called more than once.
	Abort()
	// Move moves the link to the network that the system uses now.
	Move(ctx context.Context) error
}

// LinkOptions are what a Transport dials with.
type LinkOptions struct {
	URL   url.URL        // https://host:port, without a path
	Roots *x509.CertPool // certificate authorities to trust; nil: the system's
}

// A Transport dials links. After an error, other than a *[LinkClosedError] that refuses for good, the client uses a WebSocket. If that
// works, it does so for the next 5 minutes, doubling to an hour with each further failure, unless the network changes.
type Transport func(ctx context.Context, o LinkOptions) (Link, error)

// ErrBlocked is the error of a Transport that has got no answer at all, as where a firewall stops UDP.
var ErrBlocked = errors.New("there is no answer over UDP")

// LinkClosedError is the close of a session by the server, with WebSocket's code.
type LinkClosedError struct {
	Code   int
	Reason string
}

func (e *LinkClosedError) Error() string {
	return fmt.Sprintf("the server closed the session: %s (%d)", e.Reason, e.Code)
}

// policyViolation is WebSocket's code for refusals that are final.
const policyViolation = 1008

// WithTransport makes New accept URLs of a scheme, whose sessions are links of a Transport.
func WithTransport(scheme string, t Transport) Option {
	return func(c *Client) {
		if c.transports == nil {
			c.transports = make(map[string]Transport)
		}
		c.transports[scheme] = t
	}
}

// links are the open links of a client.
type links struct {
	mu sync.Mutex
	m  map[Link]struct{}
}

func (l *links) add(link Link) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.m == nil {
		l.m = make(map[Link]struct{})
	}
	l.m[link] = struct{}{}
}

func (l *links) remove(link Link) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.m, link)
}

func (l *links) all() []Link {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.m))
}

// NetworkChanged moves sessions to the network that the system uses now, and returns once the server has answered there. A program calls it when
// the system reports another network; QUIC also looks by itself, once a second, and is tried again where it failed before. Sessions over other transports are not affected: they notice the
// loss of their network at a heartbeat.
func (c *Client) NetworkChanged(ctx context.Context) error {
	c.prefer.forget()
	var errs []error
	for _, l := range c.links.all() {
		errs = append(errs, l.Move(ctx))
	}
	return errors.Join(errs...)
}

// linkConn is a session's connection over a Link.
type linkConn struct {
	Link
	client *Client
	bufs   [][]byte   // what is sent next
	from   netip.Addr // this machine's address
	since  time.Time
	judged sync.Once
}

// judge records whether the transport works, the first time that this link shows it.
func (c *linkConn) judge(works bool) {
	c.judged.Do(func() {
		if works {
			c.client.prefer.forget()
		} else {
			c.client.prefer.failed(time.Now(), c.from)
		}
	})
}

func (c *linkConn) send(frames ...*clientFrame) error {
	c.bufs = c.bufs[:0]
	for _, f := range frames {
		b, err := proto.Marshal(f.proto())
		if err != nil {
			return err
		}
		c.bufs = append(c.bufs, b)
	}
	return c.Send(c.bufs...)
}

func (c *linkConn) recv() (serverFrame, error) {
	b, err := c.Receive()
	closed, told := errors.AsType[*LinkClosedError](err)
	c.judge(err == nil || told)
	if err != nil {
		if told && closed.Code == policyViolation {
			return serverFrame{}, &RefusedError{Reason: closed.Reason}
		}
		return serverFrame{}, fmt.Errorf("connection lost: %w", err)
	}
	return decodeProto(b), nil
}

func (c *linkConn) finish() { c.Finish() }

// abort implements conn. A program that ends a link soon has not waited for an answer, which says nothing about the network.
func (c *linkConn) abort() {
	c.judged.Do(func() {
		if time.Since(c.since) >= muteAfter {
			c.client.prefer.failed(time.Now(), c.from)
		}
	})
	c.client.links.remove(c.Link)
	c.Abort()
}
