package redisstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"godwit.dev/godwit/internal/engine/pause"
)

// Ways to find new entries, the best first.
const (
	ByTracking = "tracking" // Redis tells which keys change
	ByKeyspace = "keyspace" // Redis publishes changes of keys
	ByPublish  = "publish"  // publishers say so
	ByPoll     = "poll"     // every second
)

const (
	pingEvery     = time.Second
	topologyEvery = 2 * time.Second
	pauseFirst    = 50 * time.Millisecond // pause before reconnecting, doubled at each failure up to pauseMost
	pauseMost     = time.Second
	heardFor      = time.Minute // publishers count as sending announcements until this long after the last one
	announcements = "active-notification"
)

// finder detects which streams have changed.
type finder struct {
	link *link
	log  *slog.Logger
	// told is called with the key of a stream that may have a new entry, and heard with the client that a publisher named. They must
	// be quick.
	told  func(key string)
	heard func(client string)
	// missed is called when hints for streams of a master may be missing, so that all of them should be read. It is also called at the
	// start.
	missed func(master string)

	way  string       // ByTracking, ByKeyspace or ByPoll
	last atomic.Int64 // when publishers last sent an announcement, in nanoseconds
	// topology is the last known topology of the cluster.
	topology atomic.Pointer[topology]
}

// choose selects the best way that works.
func (f *finder) choose(ctx context.Context) error {
	t, err := f.link.topology(ctx)
	if err != nil {
		return err
	}
	f.topology.Store(t)
	if len(t.masters) == 0 {
		return errors.New("the cluster of Redis has no master: its slots are not assigned")
	}
	c, err := f.link.single(t.masters[0], func([]rueidis.RedisMessage) {})
	if err == nil {
		c.Close()
		f.way = ByTracking
		return nil
	}
	if _, said := rueidis.IsRedisErr(err); !said && !errors.Is(err, rueidis.ErrNoCache) {
		return fmt.Errorf("connect to Redis at %s: %w", t.masters[0], err)
	}
	f.way = ByPoll
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	b := f.link.main.B().ConfigGet().Parameter("notify-keyspace-events").Build()
	if flags, err := f.link.main.Do(ctx, b).AsStrMap(); err == nil {
		if v := flags["notify-keyspace-events"]; strings.Contains(v, "K") && strings.ContainsAny(v, "At") {
			f.way = ByKeyspace
		}
	}
	return nil
}

// finding returns the way in use.
func (f *finder) finding() string {
	if at := f.last.Load(); f.way == ByPoll && at != 0 && time.Since(time.Unix(0, at)) < heardFor {
		return ByPublish
	}
	return f.way
}

// run watches every master until ctx ends.
func (f *finder) run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	if f.way == ByPoll {
		wg.Go(func() { f.listen(ctx) })
	}
	watch := f.track
	if f.way == ByKeyspace {
		watch = f.subscribe
	}
	before := &topology{}
	stops := make(map[string]context.CancelFunc)
	for {
		if t, err := f.link.topology(ctx); err == nil {
			gained := t.gained(before)
			before = t
			f.topology.Store(t)
			f.follow(ctx, &wg, t, stops, watch)
			for _, addr := range gained {
				f.missed(addr)
			}
		}
		if !pause.For(ctx, topologyEvery) {
			return
		}
	}
}

// follow starts watching new masters, and stops watching nodes that are no longer masters.
func (f *finder) follow(ctx context.Context, wg *sync.WaitGroup, t *topology, stops map[string]context.CancelFunc, watch func(context.Context, string)) {
	if f.way == ByPoll {
		return
	}
	masters := make(map[string]bool)
	for _, addr := range t.masters {
		if masters[addr] = true; stops[addr] != nil {
			continue
		}
		one, stop := context.WithCancel(ctx)
		stops[addr] = stop
		wg.Go(func() { watch(one, addr) })
	}
	for addr, stop := range stops {
		if !masters[addr] {
			stop()
			delete(stops, addr)
		}
	}
}

// track makes a master report changes by client tracking, in whose broadcasting mode Redis keeps no state for idle clients.
// docs: https://redis.io/docs/latest/develop/reference/client-side-caching/
func (f *finder) track(ctx context.Context, addr string) {
	lost := make(chan struct{}, 1)
	hints := func(keys []rueidis.RedisMessage) {
		if keys == nil { // the connection was lost, or all keys changed
			select {
			case lost <- struct{}{}:
			default:
			}
			return
		}
		for i := range keys {
			if key, err := keys[i].ToString(); err == nil {
				f.told(key)
			}
		}
	}
	var c rueidis.Client
	defer func() {
		if c != nil {
			c.Close()
		}
	}()
	f.keep(ctx, addr, lost, func(ctx context.Context) (err error) {
		if c == nil {
			if c, err = f.link.single(addr, hints); err != nil {
				c = nil
				return err
			}
		}
		return c.Do(ctx, c.B().Ping().Build()).Error()
	})
}

// keep checks a connection every second, and immediately after each loss, until ctx ends. Whenever the connection is back, hints may have
// been missed.
func (f *finder) keep(ctx context.Context, addr string, lost <-chan struct{}, check func(context.Context) error) {
	missed, away, wait := true, false, pauseFirst
	for {
		one, done := context.WithTimeout(ctx, callWithin)
		err := check(one)
		done()
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			if !away {
				f.log.WarnContext(ctx, "redis tells nothing of new entries, will try again", "redis", addr, "error", err)
			}
			missed, away = true, true
			if !pause.For(ctx, wait) {
				return
			}
			wait = min(2*wait, pauseMost)
			continue
		}
		if away {
			f.log.InfoContext(ctx, "redis tells of new entries again", "redis", addr)
		}
		if missed {
			f.missed(addr)
		}
		missed, away, wait = false, false, pauseFirst
		select {
		case <-ctx.Done():
			return
		case <-lost:
			missed = true
		case <-time.After(pingEvery):
		}
	}
}

// subscribe subscribes to a master's keyspace events, which the master publishes if its setting notify-keyspace-events enables them.
func (f *finder) subscribe(ctx context.Context, addr string) {
	f.receive(ctx, addr, func() (rueidis.Client, error) { return f.link.single(addr, nil) },
		func(c rueidis.Client) rueidis.Completed {
			return c.B().Psubscribe().Pattern("__keyspace@*__:" + prefix + "*").Build()
		},
		func(m rueidis.PubSubMessage) {
			_, key, _ := strings.Cut(m.Channel, "__:")
			switch m.Message {
			case "xadd", "restore", "rename_to", "copy_to":
				f.told(key)
			}
		})
}

// listen subscribes to the announcements of publishers, if Redis itself reports no changes.
func (f *finder) listen(ctx context.Context) {
	f.receive(ctx, f.link.opts.InitAddress[0], func() (rueidis.Client, error) { return nil, nil },
		func(c rueidis.Client) rueidis.Completed { return c.B().Subscribe().Channel(announcements).Build() },
		func(m rueidis.PubSubMessage) {
			var said struct {
				StreamID string `json:"streamId"`
			}
			if json.Unmarshal([]byte(m.Message), &said) == nil && said.StreamID != "" {
				f.last.Store(time.Now().UnixNano())
				f.heard(said.StreamID)
			}
		})
}

// receive subscribes until ctx ends, and again after each loss. If connect returns a nil client, it uses the main one.
func (f *finder) receive(ctx context.Context, addr string, connect func() (rueidis.Client, error), what func(rueidis.Client) rueidis.Completed, fn func(rueidis.PubSubMessage)) {
	confirmed := rueidis.WithOnSubscriptionHook(ctx, func(rueidis.PubSubSubscription) { f.missed(addr) })
	wait := pauseFirst
	var c rueidis.Client
	for {
		own, err := connect()
		if err == nil {
			if c = own; c == nil {
				c = f.link.main
			}
			began := time.Now()
			err = c.Receive(confirmed, what(c), fn)
			if own != nil {
				own.Close()
			}
			if time.Since(began) > pauseMost {
				wait = pauseFirst
			}
		}
		if ctx.Err() == nil {
			f.log.WarnContext(ctx, "redis tells nothing of new entries, will try again", "redis", addr, "error", err)
		}
		if !pause.For(ctx, wait) {
			return
		}
		wait = min(2*wait, pauseMost)
	}
}
