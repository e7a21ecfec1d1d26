package bus

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"godwit.dev/godwit/internal/topic"
)

// link is a connection to the server and what is subscribed over it.
type link struct {
	app   string
	users atomic.Int64 // callers within and subscriptions
	used  atomic.Int64 // Unix nanoseconds of the last use

	connecting sync.Mutex
	conn       atomic.Pointer[nats.Conn]
	wire       atomic.Pointer[patient]

	server *embedded
	intake *intake
}

func (l *link) release() {
	l.used.Store(time.Now().UnixNano())
	l.users.Add(-1)
}

func (l *link) idle(now time.Time) bool {
	return l.users.Load() == 0 && now.UnixNano()-l.used.Load() > int64(idleAfter)
}

// open connects, once.
func (l *link) open() error {
	if l.conn.Load() != nil {
		return nil
	}
	l.connecting.Lock()
	defer l.connecting.Unlock()
	if l.conn.Load() != nil {
		return nil
	}
	nc, err := nats.Connect("", nats.InProcessServer(l), nats.UserInfo(l.app, l.server.secret), nats.Name("godwit"),
		nats.ReconnectBufSize(-1), nats.MaxReconnects(-1), nats.ReconnectWait(reconnectWait), nats.ErrorHandler(l.intake.slow))
	if err != nil {
		return fmt.Errorf("connect app %s to the message bus: %w", l.app, err)
	}
	l.conn.Store(nc)
	return nil
}

// reconnectWait is the pause between attempts to connect again.
const reconnectWait = 100 * time.Millisecond

// InProcessConn implements nats.InProcessConnProvider: it is called for the first connection and for each after a loss.
func (l *link) InProcessConn() (net.Conn, error) {
	c, err := l.server.nats.InProcessConn()
	if err != nil {
		return nil, err
	}
	p := newPatient(c)
	l.wire.Store(p)
	return p, nil
}

func (l *link) close() {
	if nc := l.conn.Load(); nc != nil {
		nc.Close()
	}
	l.intake.close()
}

func (l *link) publish(ctx context.Context, to string, m topic.Message) error {
	msg, err := l.message(ctx, to, m)
	if err != nil {
		return err
	}
	return problem(l.conn.Load().PublishMsg(msg))
}

func (l *link) request(ctx context.Context, to string, m topic.Message) (topic.Message, error) {
	msg, err := l.message(ctx, to, m)
	if err != nil {
		return topic.Message{}, err
	}
	answer, err := l.conn.Load().RequestMsgWithContext(ctx, msg)
	if err != nil {
		return topic.Message{}, problem(err)
	}
	return topic.Message{Header: topic.Header(answer.Header), Data: answer.Data}, nil
}

// message checks a message and waits until there is room for it.
func (l *link) message(ctx context.Context, to string, m topic.Message) (*nats.Msg, error) {
	if err := m.Header.Check(); err != nil {
		return nil, err
	}
	if p := l.wire.Load(); p != nil {
		if err := p.await(ctx); err != nil {
			return nil, err
		}
	}
	return &nats.Msg{Subject: to, Reply: m.Reply, Header: nats.Header(m.Header), Data: m.Data}, nil
}

// problem says in the bus's words what the client library says.
func problem(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, nats.ErrNoResponders):
		return topic.ErrNoResponders
	case errors.Is(err, nats.ErrMaxPayload):
		return fmt.Errorf("%w: %d bytes with its headers are allowed", errTooLarge, MaxPayload)
	case errors.Is(err, nats.ErrConnectionClosed), errors.Is(err, nats.ErrReconnectBufExceeded), errors.Is(err, nats.ErrConnectionReconnecting),
		errors.Is(err, nats.ErrDisconnected), errors.Is(err, nats.ErrConnectionDraining):
		return fmt.Errorf("%w: %w", topic.ErrUnavailable, err)
	}
	return err
}

func isInbox(subject string) bool { return strings.HasPrefix(subject, nats.InboxPrefix) }
