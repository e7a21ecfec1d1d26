// Package bus carries messages of topics and requests between sessions, back ends and NATS clients, over core NATS: at
// most once, and nothing is kept. It is a NATS server within the process, without JetStream, or an external one in its
// place. The server in the process listens for other nodes in a cluster, and on loopback for NATS clients if that is set. Nothing else imports NATS.
//
// Subjects are those that any NATS client uses: godwit.<app>.t.<topic> and godwit.<app>.r.<subject>, with a dot in the
// app's name written %2E. Callers name the app and the rest ("t.rides.oslo"; topic.Topic and topic.Request write it).
// Each app is an account of the server, so that inboxes and discovery of its NATS clients stay within it, and has one
// connection while it is in use: what was subscribed through the bus before a message was published gets that message.
//
// A message comes once for each subscription that it matches. A caller that subscribes to several patterns for one
// receiver gets it through each matching pattern, and passes on only the copy that comes through the first.
package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"godwit.dev/godwit/internal/messaging/topic"
)

// MaxPayload is the most bytes of a message with its headers: the largest body of a request through the gateway, 1 MiB, and room for 16 KB
// of its headers and for added headers.
const MaxPayload = 1<<20 + 32<<10

const (
	idleAfter  = 30 * time.Second // an app's connection is closed after this time without use
	sweepEvery = 10 * time.Second
)

// Config holds settings that differ between servers.
type Config struct {
	External External // replaces the server within the process, if it has a URL
	Cluster  *Cluster // connects the server within the process to the servers of other nodes; nil: it is alone
	Log      *slog.Logger
}

// Bus carries messages. Its methods may be called from any goroutine, and from callbacks.
type Bus struct {
	log    *slog.Logger
	dial   dialer
	counts counts

	mu     sync.RWMutex
	links  map[string]*link // by name
	lines  []*Line
	closed bool

	stop  chan struct{}
	swept sync.WaitGroup
}

var errClosed = fmt.Errorf("%w: the server is stopping", topic.ErrUnavailable)

// Start starts the bus. An external NATS that cannot be reached is logged and is no error: the bus uses it when it can.
func Start(_ context.Context, cfg Config) (*Bus, error) {
	b := &Bus{log: cfg.Log, links: make(map[string]*link), stop: make(chan struct{})}
	switch {
	case cfg.External.URL != "":
		b.dial = &external{cfg.External}
	case cfg.Cluster != nil:
		e, err := newClustered(cfg.Cluster, cfg.Log)
		if err != nil {
			return nil, err
		}
		b.dial = e
		b.swept.Go(func() { e.watch(b.stop, b.joined) })
	default:
		b.dial = newEmbedded()
	}
	b.swept.Go(b.sweep)
	if cfg.External.URL != "" {
		_, err := b.use("") // shows now whether NATS can be reached; this connection is not closed when idle
		if err != nil {
			return nil, errors.Join(err, b.Close())
		}
	}
	return b, nil
}

// Close ends all connections and the server. Messages under way are lost; running callbacks have returned when it returns.
func (b *Bus) Close() error {
	b.mu.Lock()
	links, lines := b.links, b.lines
	b.links, b.lines, b.closed = nil, nil, true
	b.mu.Unlock()
	close(b.stop)
	b.swept.Wait()
	for _, l := range links {
		l.close()
	}
	for _, l := range lines {
		l.close()
	}
	b.dial.close()
	return nil
}

// Publish sends a message to the subscribers of its subject. When Publish returns, the message is on its way to the NATS server; nothing
// confirms that it arrives. ErrUnavailable: there is no server now.
func (b *Bus) Publish(ctx context.Context, app string, m topic.Message) error {
	l, err := b.use(app)
	if err != nil {
		return err
	}
	defer l.release()
	return l.publish(ctx, subject(app, m.Subject), m)
}

// Reply answers a message; to is the Reply of that message. A worker that answers after the asker gave up gets no error.
func (b *Bus) Reply(ctx context.Context, app, to string, m topic.Message) error {
	if !isInbox(to) {
		return fmt.Errorf("reply to %.100q: is no inbox", to)
	}
	l, err := b.use(app)
	if err != nil {
		return err
	}
	defer l.release()
	return l.publish(ctx, to, m)
}

// Request sends a request to one of the workers of a subject and waits for its answer until ctx ends. Without workers it returns
// topic.ErrNoResponders at once. It sends the request only once: the worker may have carried it out even if no answer came.
func (b *Bus) Request(ctx context.Context, app string, m topic.Message) (topic.Message, error) {
	l, err := b.use(app)
	if err != nil {
		return topic.Message{}, err
	}
	defer l.release()
	return l.request(ctx, subject(app, m.Subject), m)
}

// Alone reports whether all subscriptions of an app were made with Subscribe: neither NATS clients nor other nodes
// subscribe in it.
func (b *Bus) Alone(app string) bool { return b.dial.alone(app) }

// Served reports whether a worker serves a subject now, on any node. An external NATS does not tell, so that Served is always true there.
func (b *Bus) Served(app, name string) (bool, error) {
	l, err := b.use(app)
	if err != nil {
		return false, err
	}
	defer l.release()
	return b.dial.served(app, subject(app, name)), nil
}

// Subscribe calls got with each message of a subject within the app, wildcards allowed, until stop is called. With a
// queue, each message goes to one of the queue's members in this app wherever they are connected, and each call of
// Subscribe makes a member of its own.
//
// got and lost are called one after the other for all topics of an app, and so for all else; they must not block. got
// may keep the message but not alter it. lost comes before the next message and says how many were dropped since the
// last, because the subscribers were too slow; messages lost in an outage of an external NATS cannot be counted. stop
// waits for no callback. A member of a queue still gets the messages that were given to it before stop took effect,
// since nobody else does.
func (b *Bus) Subscribe(app, pattern, queue string, got func(topic.Message), lost func(n int)) (stop func(), err error) {
	l, err := b.use(app)
	if err != nil {
		return nil, err
	}
	unsubscribe, err := l.intake.subscribe(l.conn.Load(), key{app, pattern, queue}, &listener{got: got, lost: lost})
	if err != nil {
		l.release()
		return nil, fmt.Errorf("subscribe to %s of app %s: %w", pattern, app, err)
	}
	return sync.OnceFunc(func() {
		unsubscribe()
		l.release()
	}), nil
}

// use returns the connection for an app, and makes it if necessary. The caller must call release.
func (b *Bus) use(app string) (*link, error) {
	b.mu.RLock()
	l, closed := b.links[b.dial.name(app)], b.closed
	if l != nil {
		l.users.Add(1)
	}
	b.mu.RUnlock()
	if l == nil && !closed {
		l, closed = b.add(app)
	}
	if closed {
		return nil, errClosed
	}
	if err := l.open(); err != nil {
		l.release()
		return nil, err
	}
	return l, nil
}

// add makes the link of an app, unless another goroutine has just made it. The link connects later, in open, without the lock.
func (b *Bus) add(app string) (l *link, closed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, true
	}
	name := b.dial.name(app)
	if l = b.links[name]; l == nil {
		l = &link{name: name, dial: b.dial, intake: newIntake(&b.counts)}
		if name == "" {
			l.changed = b.changed
		}
		b.links[name] = l
	}
	l.users.Add(1)
	return l, false
}

// sweep closes unused connections.
func (b *Bus) sweep() {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-b.stop:
			return
		case now := <-tick.C:
			b.closeIdle(now)
		}
	}
}

func (b *Bus) closeIdle(now time.Time) {
	var idle []*link
	b.mu.Lock()
	for app, l := range b.links {
		if l.idle(now) {
			idle = append(idle, l)
			delete(b.links, app)
		}
	}
	b.mu.Unlock()
	for _, l := range idle {
		l.close()
	}
}

// changed logs that the connection to the NATS server was lost or restored.
func (b *Bus) changed(up bool, why error) {
	if up {
		b.log.Info("message bus connected")
	} else {
		b.log.Warn("message bus lost: topics and requests are refused until it is back", "error", why)
	}
}

// subject returns the full subject of a subject within an app.
func subject(app, rest string) string { return prefix(app) + rest }

func prefix(app string) string { return root + topic.EncodeToken(app) + "." }

const root = "godwit."
