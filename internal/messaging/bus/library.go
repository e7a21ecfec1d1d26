package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats.go"

	"godwit.dev/godwit/internal/messaging/topic"
)

// maxLineInRow is how many messages may wait between the client library and the pump.
const maxLineInRow = 8192

// library connects a line to an external NATS. The client library handles credentials, TLS and the other servers of the NATS.
type library struct {
	wired
	nc     *nats.Conn
	prefix string // prefix of the subjects of the nodes with this database
	to     *Line
	log    *slog.Logger

	ch    chan *nats.Msg // of all subscriptions
	said  atomic.Bool    // a refusal was logged; the next one is logged only after another connection
	done  chan struct{}
	ended sync.WaitGroup
}

// connectByLibrary connects a line now, or when the NATS can be reached.
func connectByLibrary(x *external, l *Line, prefix string, log *slog.Logger) (*library, error) {
	c := &library{prefix: prefix, to: l, log: log, ch: make(chan *nats.Msg, maxLineInRow), done: make(chan struct{})}
	var err error
	c.nc, err = x.dial(
		&c.wired, nats.Name("godwit"+l.name), nats.NoEcho(), nats.ReconnectBufSize(-1), nats.MaxReconnects(-1), nats.ReconnectWait(reconnectWait),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, why error) { c.refused(why) }),
		nats.ReconnectHandler(c.back), nats.ConnectHandler(c.back),
	)
	if err != nil {
		return nil, err
	}
	c.ended.Go(c.pump)
	return c, nil
}

// back records that the line is connected, for the first time or again.
func (c *library) back(nc *nats.Conn) {
	c.said.Store(false)
	if most := nc.MaxPayload(); c.to.name == Mailboxes && most < maxBetweenNodes {
		c.log.Warn("NATS takes smaller messages than nodes may send each other: what is larger comes seconds later, from the store; raise its max_payload",
			"max_payload", most, "needed", maxBetweenNodes)
	}
	c.to.lost()
}

// refused handles an error of NATS or the client library, after which messages may be missing.
func (c *library) refused(why error) {
	if errors.Is(why, nats.ErrPermissionViolation) && !c.said.Swap(true) {
		c.log.Error("NATS refuses what nodes tell each other: allow the user of nats_credentials to publish and subscribe to "+ownPrefix+">", "error", why)
	}
	c.to.lost()
}

func (c *library) publish(subject string, data []byte) error {
	if p := c.wire.Load(); p == nil || p.backlog() > maxLineBytes || !c.nc.IsConnected() {
		return errAway
	}
	return problem(c.nc.Publish(c.prefix+subject, data))
}

// interest is a subscription of a line.
type interest nats.Subscription

// End ends the subscription. An error means that the connection is closed, and the subscription with it.
func (i *interest) End() { _ = (*nats.Subscription)(i).Unsubscribe() }

func (c *library) subscribe(subject string) (interface{ End() }, error) {
	of, err := c.nc.ChanSubscribe(c.prefix+subject, c.ch)
	if err != nil {
		return nil, problem(err)
	}
	return (*interest)(of), nil
}

func (c *library) flush(ctx context.Context) error {
	if !c.nc.IsConnected() {
		return errAway // it would be waited for
	}
	if err := c.nc.FlushWithContext(ctx); err != nil {
		return fmt.Errorf("%w: %w", topic.ErrUnavailable, err)
	}
	return nil
}

// pump empties the channel that the client library fills.
func (c *library) pump() {
	for {
		select {
		case <-c.done:
			return
		case m := <-c.ch:
			c.to.take(m.Subject[len(c.prefix):], m.Data)
		}
	}
}

func (c *library) close() {
	c.nc.Close()
	c.unwire()
	close(c.done)
	c.ended.Wait()
}
