package bus

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Limits of a line.
const (
	maxLineBytes   = 16 << 20 // most bytes that wait for the listener; as many may wait to be sent
	lineMessageTax = 128      // bytes of memory of a waiting message in addition to its data
)

// Line is a connection on which nodes exchange messages. Messages are lost while the other nodes cannot be reached or are too slow; both
// ends are then informed that messages may be missing. Only Flush waits.
type Line struct {
	name string
	cfg  LineConfig
	on   carrier

	dropped atomic.Uint64

	mu    sync.Mutex
	queue []heard
	bytes int
	wake  chan struct{}
	gap   bool

	done  chan struct{}
	ended sync.WaitGroup
}

// carrier is a line's connection to a NATS server; it reconnects after a loss. It calls the line's take and lost, and only flush waits.
type carrier interface {
	publish(subject string, data []byte) error
	subscribe(subject string) (interface{ End() }, error)
	flush(ctx context.Context) error
	close()
}

// heard is a received message of another node.
type heard struct {
	subject string
	data    []byte
}

// LineConfig holds a line's callbacks. They are called one after the other, and must not wait for the line.
type LineConfig struct {
	Got func(subject string, data []byte) // data is Got's to keep
	// Lost reports that messages may be missing: the bus was away, a node has joined, or the queue was full.
	Lost func()
}

// Line opens the line with a name: Mailboxes or Objects. It ends with the bus.
func (b *Bus) Line(name string, cfg LineConfig) (*Line, error) {
	l := &Line{name: name, cfg: cfg, wake: make(chan struct{}, 1), done: make(chan struct{})}
	var err error
	if l.on, err = b.dial.carry(l, b.log); err != nil {
		return nil, fmt.Errorf("connect nodes over the message bus: %w", err)
	}
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

// Publish sends a message to the nodes that subscribe to its subject, except this one. An error means that the message was not sent; it is
// topic.ErrUnavailable.
func (l *Line) Publish(subject string, data []byte) error {
	if err := l.on.publish(subject, data); err != nil {
		l.dropped.Add(1)
		return err
	}
	return nil
}

// Dropped is the number of messages that Publish failed to send.
func (l *Line) Dropped() uint64 { return l.dropped.Load() }

// Subscribe receives messages that other nodes publish to a subject, until End; messages under way at End are still delivered. The
// subscription is in effect on this node once Flush has returned, and on others some moments later.
func (l *Line) Subscribe(subject string) (interface{ End() }, error) {
	of, err := l.on.subscribe(subject)
	if err != nil {
		return nil, fmt.Errorf("subscribe to %s: %w", subject, err)
	}
	return of, nil
}

// flushPatience limits how long the bus of this process may take to answer. Normally it takes a fraction of a millisecond.
const flushPatience = 5 * time.Second

// Flush returns once this node's bus has handled all subscriptions.
func (l *Line) Flush(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, flushPatience, fmt.Errorf("the message bus did not answer in %s", flushPatience))
	defer cancel()
	return l.on.flush(ctx)
}

// take queues a message for the line's listener. If too many bytes wait already, it drops the message and reports a gap.
func (l *Line) take(subject string, data []byte) {
	l.mu.Lock()
	if n := len(data) + lineMessageTax; l.bytes+n > maxLineBytes {
		l.gap = true
	} else {
		l.bytes += n
		l.queue = append(l.queue, heard{subject, data})
	}
	l.mu.Unlock()
	l.stir()
}

// lost reports to the listener that messages may be missing.
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
			l.cfg.Got(m.subject, m.data)
		}
		if gap {
			l.cfg.Lost()
		}
	}
}

// close ends the line. It returns after a running callback has returned.
func (l *Line) close() {
	l.on.close()
	close(l.done)
	l.ended.Wait()
}
