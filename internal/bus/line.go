package bus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"godwit.dev/godwit/internal/topic"
)

// Limits of a line.
const (
	maxLineBytes   = 16 << 20 // that wait for who listens, and as many that wait to be written
	maxLineInRow   = 8192
	lineMessageTax = 128 // what a waiting message costs beside its bytes
)

// Line is a connection on which nodes talk to each other. What it carries is lost while the others cannot be reached or do
// not keep up, and both ends are told that something may have been. Its methods do not wait, but for Flush.
type Line struct {
	wired
	nc     *nats.Conn
	name   string
	prefix string
	cfg    LineConfig

	ch      chan *nats.Msg
	dropped atomic.Uint64
	said    atomic.Bool // that it is refused; not again before it is connected anew

	mu    sync.Mutex
	queue []*nats.Msg
	bytes int
	wake  chan struct{}
	gap   bool

	done  chan struct{}
	ended sync.WaitGroup
}

// LineConfig is who listens on a line. Both functions are called one after the other, and must not wait for the line.
type LineConfig struct {
	Got func(subject string, data []byte) // data is Got's to keep
	// Lost says that something may be missing: the bus was away, a node has joined, or what came was too much.
	Lost func()
}

// interest is what is subscribed to on a line.
type interest nats.Subscription

// End ends it. It fails only where the connection is closed, and the interest with it.
func (i *interest) End() { _ = (*nats.Subscription)(i).Unsubscribe() }

// Line opens the line of a name: Mailboxes or Objects. It ends with the bus.
func (b *Bus) Line(name string, cfg LineConfig) (*Line, error) {
	l := &Line{name: name, cfg: cfg, ch: make(chan *nats.Msg, maxLineInRow), wake: make(chan struct{}, 1), done: make(chan struct{})}
	var err error
	l.nc, l.prefix, err = b.dial.connectLine(
		name, &l.wired, nats.Name("godwit"+name), nats.NoEcho(), nats.ReconnectBufSize(-1), nats.MaxReconnects(-1), nats.ReconnectWait(reconnectWait),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, why error) { b.refused(l, why) }),
		nats.ReconnectHandler(func(nc *nats.Conn) { b.back(l, nc) }), nats.ConnectHandler(func(nc *nats.Conn) { b.back(l, nc) }),
	)
	if err != nil {
		return nil, fmt.Errorf("connect nodes over the message bus: %w", err)
	}
	l.ended.Go(l.pump)
	l.ended.Go(l.run)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		l.close()
		return nil, errClosed
	}
	b.lines = append(b.lines, l)
	return l, nil
}

// back says of a line that it is connected, for the first time or again.
func (b *Bus) back(l *Line, nc *nats.Conn) {
	l.said.Store(false)
	if most := nc.MaxPayload(); l.name == Mailboxes && most < maxBetweenNodes {
		b.log.Warn("NATS takes smaller messages than nodes may send each other: what is larger comes seconds later, from the store; raise its max_payload",
			"max_payload", most, "needed", maxBetweenNodes)
	}
	l.lost()
}

// refused is what NATS says of a line, or the client library: that something may be missing.
func (b *Bus) refused(l *Line, why error) {
	if errors.Is(why, nats.ErrPermissionViolation) && !l.said.Swap(true) {
		b.log.Error("NATS refuses what nodes tell each other: allow the user of nats_credentials to publish and subscribe to "+ownPrefix+">", "error", why)
	}
	l.lost()
}

// Publish sends to the nodes that are interested in a subject; this one's own interest does not count. The error says that
// it was not sent: it is topic.ErrUnavailable.
func (l *Line) Publish(subject string, data []byte) error {
	if p := l.wire.Load(); p == nil || p.backlog() > maxLineBytes || !l.nc.IsConnected() {
		l.dropped.Add(1)
		return errAway
	}
	if err := l.nc.Publish(l.prefix+subject, data); err != nil {
		l.dropped.Add(1)
		return problem(err)
	}
	return nil
}

// Dropped counts what Publish could not send.
func (l *Line) Dropped() uint64 { return l.dropped.Load() }

// Subscribe has what other nodes publish to a subject come here until End. It is in effect on this node once Flush has
// returned, and on others some moments later.
func (l *Line) Subscribe(subject string) (interface{ End() }, error) {
	of, err := l.nc.ChanSubscribe(l.prefix+subject, l.ch)
	if err != nil {
		return nil, fmt.Errorf("subscribe to %s: %w", subject, problem(err))
	}
	return (*interest)(of), nil
}

// flushPatience is how long the bus of this process may take to answer. It takes a fraction of a millisecond.
const flushPatience = 5 * time.Second

// Flush returns once this node's bus knows what was subscribed to.
func (l *Line) Flush(ctx context.Context) error {
	if !l.nc.IsConnected() {
		return errAway // an external NATS that is gone would be waited for
	}
	ctx, cancel := context.WithTimeoutCause(ctx, flushPatience, fmt.Errorf("the message bus did not answer in %s", flushPatience))
	defer cancel()
	if err := l.nc.FlushWithContext(ctx); err != nil {
		return fmt.Errorf("%w: %w", topic.ErrUnavailable, err)
	}
	return nil
}

// pump empties the channel that the client library fills, into a queue that is bounded in bytes.
func (l *Line) pump() {
	for {
		select {
		case <-l.done:
			return
		case m := <-l.ch:
			l.mu.Lock()
			if n := len(m.Data) + lineMessageTax; l.bytes+n > maxLineBytes {
				l.gap = true
			} else {
				l.bytes += n
				l.queue = append(l.queue, m)
			}
			l.mu.Unlock()
			l.stir()
		}
	}
}

// lost has whoever listens told that something may be missing.
func (l *Line) lost() {
	l.mu.Lock()
	l.gap = true
	l.mu.Unlock()
	l.stir()
}

func (l *Line) stir() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func (l *Line) run() {
	for {
		select {
		case <-l.done:
			return
		case <-l.wake:
		}
		l.mu.Lock()
		taken, gap := l.queue, l.gap
		l.queue, l.bytes, l.gap = nil, 0, false
		l.mu.Unlock()
		for _, m := range taken {
			l.cfg.Got(m.Subject[len(l.prefix):], m.Data)
		}
		if gap {
			l.cfg.Lost()
		}
	}
}

// close ends the line; a callback under way has returned then.
func (l *Line) close() {
	l.nc.Close()
	l.unwire()
	close(l.done)
	l.ended.Wait()
}
