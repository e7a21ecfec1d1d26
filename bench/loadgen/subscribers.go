package loadgen

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"godwit.dev/godwit/bench/latency"
	"godwit.dev/godwit/internal/engine/pause"
	"godwit.dev/godwit/internal/engine/reactor"
)

// Transports that subscribers can use.
const (
	WebSocketJSON  = "ws-json"
	WebSocketProto = "ws-proto"
	GRPC           = "grpc"
	SSE            = "sse"
)

// Subscribers are many recipients, each with one connection.
type Subscribers struct {
	cfg      SubscriberConfig
	dial     dialer
	posts    []*poster // connections for acknowledgements over SSE, one poster for each server
	round    int
	all      []*subscriber
	followed *followed // nil: nobody registers for objects

	onArrival atomic.Pointer[func(recipient int)] // called on the loop after each acknowledged notification

	onStamp atomic.Pointer[func(due, at int64)] // called on the loop for each new notification; nil: nobody is told

	latency  *latency.Histogram
	interval *latency.Histogram // latencies since the last call of Interval

	live       atomic.Int64
	received   atomic.Int64 // each notification once
	duplicates atomic.Int64 // seen before
	disorder   atomic.Int64 // first deliveries that arrived after a newer notification
	lost       atomic.Int64 // connections that ended by themselves
	agreed     atomic.Int64 // subscribers whose registrations the server has confirmed
	unknown    atomic.Int64 // signals that named no version
	gaps       atomic.Int64 // messages of topics that the server reported as dropped
	ahead      atomic.Int64 // how far the publishers' clock is ahead of this process's

	mu       sync.Mutex
	firstErr error // first error of a connection that was not cut on purpose

	// Of the single loop.
	readAt int64         // when the current input was read
	late   []*subscriber // with acknowledgements that wait
	lateAt int64         // when the late acknowledgements are due; 0: there are none
}

// SubscriberConfig says who connects where.
type SubscriberConfig struct {
	Targets     []Target      `json:"targets"`
	Transport   string        `json:"transport"`
	App         string        `json:"app"`
	Prefix      string        `json:"prefix"` // of the recipients' names
	First       int           `json:"first"`
	Count       int           `json:"count"`
	Concurrency int           `json:"concurrency"` // connections being opened at a time; 0: all at once
	Window      int           `json:"window"`
	Heartbeat   time.Duration `json:"heartbeat"`
	Spread      bool          `json:"spread"`
	NoAcks      bool          `json:"no_acks"`    // what comes needs no acknowledgement
	AckAfter    time.Duration `json:"ack_after"`  // delay of acknowledgements of signals, and how long those of notifications are collected; 0: sent at once
	DeafEvery   int           `json:"deaf_every"` // each DeafEvery-th subscriber reads nothing; 0: none
	Following   *Following    `json:"following,omitempty"`
	Topic       string        `json:"topic,omitempty"` // topic that all subscribe to; only over WebSockets with JSON, and over MQTT
	Ramp        time.Duration `json:"ramp"`            // the time over which connecting is spread; 0: as fast as possible
}

// NewSubscribers prepares subscribers on a reactor with one loop.
func NewSubscribers(r *reactor.Reactor, cfg SubscriberConfig) (*Subscribers, error) {
	if len(cfg.Targets) == 0 {
		return nil, errors.New("there is no server to connect to")
	}
	s := &Subscribers{cfg: cfg, followed: newFollowed(cfg.Following), latency: latency.New(), interval: latency.New()}
	s.dial = dialer{r: r, tls: clientTLS(cfg.Targets[0], cfg.Transport), spread: cfg.Spread, quic: cfg.Transport == QUIC}
	s.all = make([]*subscriber, cfg.Count)
	for i := range s.all {
		s.all[i] = &subscriber{s: s, num: cfg.First + i, deaf: cfg.DeafEvery > 0 && (cfg.First+i)%cfg.DeafEvery == 0}
	}
	return s, nil
}

// Connect opens all connections, concurrency at a time (0: all at once), and waits until the server has accepted each session.
func (s *Subscribers) Connect(ctx context.Context, concurrency int) error {
	if err := s.openPosters(ctx); err != nil {
		return err
	}
	s.round++
	width := concurrency
	if width <= 0 || width > len(s.all) {
		width = max(len(s.all), 1)
	}
	slots := make(chan struct{}, width)
	errs := make(chan error, len(s.all))
	ctx, cancel := context.WithTimeoutCause(ctx, connectPatience, fmt.Errorf("not all were welcomed within %s", connectPatience))
	defer cancel()
	var wg sync.WaitGroup
	jobs := make(chan *subscriber)
	for range min(width, dialers) {
		wg.Go(func() {
			for sub := range jobs {
				s.open(ctx, sub, func(err error) {
					errs <- err
					<-slots
				})
			}
		})
	}
	err := s.feed(ctx, slots, jobs)
	close(jobs)
	wg.Wait()
	for range s.all {
		if err != nil {
			break
		}
		select {
		case err = <-errs:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	if err != nil {
		return fmt.Errorf("connect %d subscribers (%d are): %w", len(s.all), s.live.Load(), err)
	}
	return nil
}

const (
	// connectPatience limits how long opening all connections may take.
	connectPatience = 5 * time.Minute
	// dialers is the number of goroutines that call connect, which returns at once on loopback.
	dialers = 64
)

func (s *Subscribers) feed(ctx context.Context, slots chan struct{}, jobs chan *subscriber) error {
	begun := time.Now()
	for i, sub := range s.all {
		if due := s.cfg.Ramp * time.Duration(i) / time.Duration(len(s.all)); due > 0 {
			if !pause.For(ctx, time.Until(begun.Add(due))) {
				return context.Cause(ctx)
			}
		}
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		jobs <- sub
	}
	return nil
}

func (s *Subscribers) open(ctx context.Context, sub *subscriber, done func(error)) {
	var once sync.Once
	report := func(err error) { once.Do(func() { done(err) }) }
	target := TargetOf(s.cfg.Prefix, sub.num, len(s.cfg.Targets))
	t := s.cfg.Targets[target]
	d := s.dial
	d.small = sub.deaf
	err := d.dial(ctx, t.addr(s.cfg.Transport), sub.num, s.round-1, func(c *reactor.Conn) reactor.Handler {
		sub.asked, sub.agreed = false, false
		sub.conn, sub.up, sub.cut, sub.done = c, false, false, func(err error) {
			if err == nil {
				s.live.Add(1)
			}
			report(err)
		}
		sub.wire = s.newWire(target, sub.num)
		c.Write(sub.wire.begin(), nil)
		return sub
	})
	if err != nil {
		report(err)
	}
}

// openPosters opens connections for acknowledgements if the transport itself cannot carry them.
func (s *Subscribers) openPosters(ctx context.Context) error {
	if s.cfg.Transport != SSE || s.posts != nil {
		return nil
	}
	d := s.dial
	d.spread = false
	for _, t := range s.cfg.Targets {
		p, err := newPoster(ctx, &d, t, s.failed)
		if err != nil {
			return err
		}
		s.posts = append(s.posts, p)
	}
	return nil
}

func (s *Subscribers) newWire(target, num int) wire {
	t := s.cfg.Targets[target]
	name := RecipientName(s.cfg.Prefix, num)
	switch s.cfg.Transport {
	case GRPC:
		return newGRPCWire(t, s.helloProto(name))
	case Nammayatri:
		return newNammayatriWire(t, ClientID(s.cfg.Prefix, num))
	case SSE:
		return newSSEWire(t, s.cfg.App, name, s.posts[target].ack)
	case MQTT:
		user := s.cfg.App + "/" + name
		switch {
		case s.cfg.Topic != "" && t.MQTT != "":
			return &followerWire{user: user}
		case s.cfg.Topic != "":
			return &followerWire{mqttWire: mqttWire{name: name}}
		case t.MQTT != "":
			return &inboxWire{user: user}
		}
		return newMQTTWire(name)
	case PushService:
		return newPushWire(t)
	case QUIC:
		return &quicWire{*newWebSocketWire(t, false, s.helloJSON(name))}
	case NATS:
		return newNATSWire(name)
	case WebSocketProto:
		return newWebSocketWire(t, true, s.helloProto(name))
	default:
		w := newWebSocketWire(t, false, s.helloJSON(name))
		if s.cfg.Topic != "" {
			w.then = subscribeJSON(s.cfg.Topic)
		}
		return w
	}
}

// arrived counts a notification. Each recipient's seq grows by one, so it shows whether the notification is new.
func (s *Subscribers) arrived(sub *subscriber, a arrival) {
	fresh, late := sub.seen.add(a.seq)
	if !fresh {
		s.duplicates.Add(1)
		return
	}
	if late {
		s.disorder.Add(1)
	}
	s.received.Add(1)
	sub.fresh++
	if a.due > 0 {
		d := time.Duration(s.readAt - a.due)
		s.latency.Record(d)
		s.interval.Record(d)
		if f := s.onStamp.Load(); f != nil {
			(*f)(a.due, s.readAt)
		}
	}
}

// OnStamp tells f when notifications were due, and when they arrived.
func (s *Subscribers) OnStamp(f func(due, at int64)) { s.onStamp.Store(&f) }

// seqs records which of a recipient's notifications have arrived: the newest and the 64 before it.
type seqs struct {
	newest uint64
	before uint64 // bit i: newest-1-i has come
}

// add records seq. fresh: it arrived for the first time, as far as is known; late: after a newer one.
func (s *seqs) add(seq uint64) (fresh, late bool) {
	if seq > s.newest {
		step := seq - s.newest
		s.before = s.before<<step | 1<<(step-1)
		s.newest = seq
		return true, false
	}
	bit := uint64(1) << (s.newest - seq - 1) // 0 for the newest, and for those too old to be recorded
	if seq == s.newest || bit == 0 || s.before&bit != 0 {
		return false, true
	}
	s.before |= bit
	return true, true
}

func (s *Subscribers) closed(sub *subscriber, err error) {
	if sub.up {
		s.live.Add(-1)
	}
	if sub.agreed {
		s.agreed.Add(-1)
		sub.agreed = false
	}
	if sub.up && !sub.cut {
		s.lost.Add(1)
		s.failed(err)
	}
	sub.up = false
}

// failed keeps the first error.
func (s *Subscribers) failed(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.firstErr == nil {
		s.firstErr = err
	}
}

var errCut = errors.New("cut by the load generator")

// Cut ends all connections at once, as a failing network does, and waits until they are closed.
func (s *Subscribers) Cut(ctx context.Context) error {
	for _, sub := range s.all {
		if sub.conn != nil {
			sub.cut = true
			sub.conn.Abort(errCut)
		}
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for s.live.Load() > 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// Counts are the counts of all subscribers.
type Counts struct {
	Live       int64  `json:"live"`
	Received   int64  `json:"received"` // each notification once
	Duplicates int64  `json:"duplicates"`
	Disorder   int64  `json:"disorder"`
	Lost       int64  `json:"lost_connections"`
	Agreed     int64  `json:"agreed"`        // subscribers that agree with the server about their registrations
	Unknown    int64  `json:"unknown"`       // signals that named no version
	Gaps       int64  `json:"gaps"`          // messages of topics that the server reported as dropped
	Why        string `json:"why,omitempty"` // the first error
}

// SetAhead sets how far the publishers' clock is ahead of this process's, in nanoseconds, if they run on another machine.
func (s *Subscribers) SetAhead(ns int64) { s.ahead.Store(ns) }

// Live is the number of connected subscribers.
func (s *Subscribers) Live() int64 { return s.live.Load() }

// Interval returns the latencies since the last call.
func (s *Subscribers) Interval() *latency.Histogram { return s.interval.Take() }

// Received is the number of notifications received since the start.
func (s *Subscribers) Received() int64 { return s.received.Load() }

// TakeLatency returns the latencies since the last call.
func (s *Subscribers) TakeLatency() *latency.Histogram { return s.latency.Take() }

// Counts returns the counters since the start.
func (s *Subscribers) Counts() Counts {
	c := Counts{
		Live: s.live.Load(), Received: s.received.Load(), Duplicates: s.duplicates.Load(), Disorder: s.disorder.Load(),
		Lost: s.lost.Load(), Agreed: s.agreed.Load(), Unknown: s.unknown.Load(), Gaps: s.gaps.Load(),
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.firstErr != nil {
		c.Why = s.firstErr.Error()
	}
	return c
}
