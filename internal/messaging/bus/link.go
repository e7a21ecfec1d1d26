package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"godwit.dev/godwit/internal/messaging/topic"
)

// dialer makes connections to a NATS server: the one within the process, or an external one.
type dialer interface {
	connect(l *link, options ...nats.Option) (*nats.Conn, error)
	carry(l *Line, log *slog.Logger) (carrier, error)
	disconnected(l *link)
	name(app string) string // name of the link that serves an app
	alone(app string) bool  // reports that no other client can have subscriptions in the app
	// served reports whether anybody subscribes to a full subject in the app. It is true if that is unknown.
	served(app, subject string) bool
	close()
}

// link is a connection to the server with its subscriptions.
type link struct {
	name  string
	users atomic.Int64 // callers within and subscriptions
	used  atomic.Int64 // Unix nanoseconds of the last use

	dial       dialer
	connecting sync.Mutex
	closed     bool // guarded by connecting
	conn       atomic.Pointer[nats.Conn]
	wired
	intake  *intake
	changed func(up bool, why error) // nil: nobody cares

	mu     sync.Mutex
	asking map[int64]context.CancelCauseFunc // requests under way
	asked  int64
}

func (l *link) release() {
	l.used.Store(time.Now().UnixNano())
	l.users.Add(-1)
}

func (l *link) idle(now time.Time) bool {
	return l.users.Load() == 0 && now.UnixNano()-l.used.Load() > int64(idleAfter)
}

// reconnectWait is the pause between attempts to connect again.
const reconnectWait = 250 * time.Millisecond

// open connects, once.
func (l *link) open() error {
	if l.conn.Load() != nil {
		return nil
	}
	l.connecting.Lock()
	defer l.connecting.Unlock()
	switch {
	case l.conn.Load() != nil:
		return nil
	case l.closed:
		return errClosed
	}
	nc, err := l.dial.connect(
		l, nats.Name("godwit"), nats.ReconnectBufSize(-1), nats.MaxReconnects(-1), nats.ReconnectWait(reconnectWait),
		nats.ErrorHandler(l.intake.slow), nats.DisconnectErrHandler(l.lost), nats.ReconnectHandler(l.found), nats.ConnectHandler(l.found),
	)
	if err != nil {
		return err
	}
	l.conn.Store(nc)
	return nil
}

// wired holds the newest of several successive connections.
type wired struct{ wire atomic.Pointer[patient] }

// patiently stores a new connection, on which publishers wait for room, and closes the one before: the client library does not close a
// connection on which its handshake failed.
func (w *wired) patiently(c net.Conn) net.Conn {
	p := newPatient(c)
	if before := w.wire.Swap(p); before != nil {
		_ = before.Close()
	}
	return p
}

// unwire closes the connection if the client library has not.
func (w *wired) unwire() {
	if p := w.wire.Load(); p != nil {
		_ = p.Close()
	}
}

// close closes the connection for good.
func (l *link) close() {
	l.connecting.Lock()
	l.closed = true
	l.connecting.Unlock()
	if nc := l.conn.Load(); nc != nil {
		nc.Close()
		l.unwire()
		l.dial.disconnected(l)
	}
	l.intake.close()
}

// lost ends requests under way, since their answers cannot arrive any more.
func (l *link) lost(nc *nats.Conn, why error) {
	l.mu.Lock()
	asking := l.asking
	l.asking = nil
	l.mu.Unlock()
	for _, cancel := range asking {
		cancel(errAway)
	}
	if l.changed != nil && !nc.IsClosed() {
		l.changed(false, why)
	}
}

func (l *link) found(*nats.Conn) {
	if l.changed != nil {
		l.changed(true, nil)
	}
}

func (l *link) publish(ctx context.Context, to string, m topic.Message) error {
	msg, err := l.message(ctx, to, m)
	if err != nil {
		return err
	}
	l.intake.counts.published.Add(1)
	return problem(l.conn.Load().PublishMsg(msg))
}

func (l *link) request(ctx context.Context, to string, m topic.Message) (topic.Message, error) {
	msg, err := l.message(ctx, to, m)
	if err != nil {
		return topic.Message{}, err
	}
	l.intake.counts.requests.Add(1)
	asking, end := l.ask(ctx)
	defer end()
	answer, err := l.conn.Load().RequestMsgWithContext(asking, msg)
	if err != nil {
		if errors.Is(context.Cause(asking), errAway) {
			err = errAway
		}
		return topic.Message{}, problem(err)
	}
	return topic.Message{Header: topic.Header(answer.Header), Data: answer.Data}, nil
}

// ask registers a request under way.
func (l *link) ask(ctx context.Context) (asking context.Context, end func()) {
	asking, cancel := context.WithCancelCause(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked++
	id := l.asked
	if l.asking == nil {
		l.asking = make(map[int64]context.CancelCauseFunc)
	}
	l.asking[id] = cancel
	return asking, func() {
		l.mu.Lock()
		delete(l.asking, id)
		l.mu.Unlock()
		cancel(nil)
	}
}

// message checks a message and waits until there is room for it.
func (l *link) message(ctx context.Context, to string, m topic.Message) (*nats.Msg, error) {
	if err := m.Header.Check(); err != nil {
		return nil, err
	}
	if len(m.Data) > MaxPayload {
		return nil, problem(nats.ErrMaxPayload)
	}
	if !l.conn.Load().IsConnected() {
		return nil, errAway
	}
	if p := l.wire.Load(); p != nil {
		if err := p.await(ctx); err != nil {
			return nil, err
		}
	}
	return &nats.Msg{Subject: to, Reply: m.Reply, Header: nats.Header(m.Header), Data: m.Data}, nil
}

var errAway = fmt.Errorf("%w: NATS does not answer", topic.ErrUnavailable)

// problem converts errors of the client library to errors of the bus.
func problem(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, nats.ErrNoResponders):
		return topic.ErrNoResponders
	case errors.Is(err, nats.ErrMaxPayload):
		return fmt.Errorf("the message is too large: %d bytes with its headers are allowed", MaxPayload)
	case errors.Is(err, nats.ErrConnectionClosed), errors.Is(err, nats.ErrReconnectBufExceeded), errors.Is(err, nats.ErrConnectionReconnecting),
		errors.Is(err, nats.ErrDisconnected), errors.Is(err, nats.ErrConnectionDraining):
		return errAway
	}
	return err
}

func isInbox(subject string) bool { return strings.HasPrefix(subject, nats.InboxPrefix) }
