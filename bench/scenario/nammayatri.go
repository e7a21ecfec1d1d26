package scenario

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"godwit.dev/godwit/bench/loadgen"
	"godwit.dev/godwit/bench/meter"
	"godwit.dev/godwit/bench/redispub"
	"godwit.dev/godwit/bench/report"
	"godwit.dev/godwit/bench/testbed"
	"godwit.dev/godwit/bench/worker"
	"godwit.dev/godwit/internal/testkit/freeport"
	"godwit.dev/godwit/internal/testkit/redisserver"
)

// Nammayatri measures Godwit in the place of nammayatri's notification-service: it delivers entries of Redis streams to clients over gRPC.
type Nammayatri struct {
	Common
	Clients    int
	Publishers int
	Rates      []float64 // entries a second; each rate is measured on a single Redis and on a cluster
	Size       int
	Shards     int
	Masters    int // masters of the cluster; 0: the cluster is not measured
	For        time.Duration
	Idle       int // idle clients whose memory is measured; 0: not measured
	Pairs      int // number of comparisons between few and many idle clients
	CostFor    time.Duration
	Settle     time.Duration // how long memory may settle
	Poison     float64       // unreadable entries a second, beside readable ones; 0: not measured
}

// Run measures all parts.
func (s *Nammayatri) Run(ctx context.Context) (*report.Result, error) {
	r := s.begin("nammayatri", "nammayatri: entries of Redis streams to clients of its notification-service",
		set("clients", s.Clients), set("publishers", s.Publishers), set("size", fmt.Sprintf("%d B", s.Size)), set("shards", s.Shards),
		set("for", s.For), set("idle clients", s.Idle))
	r.Note("Redis keeps nothing on disk; nobody publishes to active-notification; clients acknowledge all at once, and their tokens are in Redis")
	err := s.runs(ctx, func(ctx context.Context, n int) error {
		for _, rate := range s.Rates {
			for _, masters := range s.places() {
				group := fmt.Sprintf("%s/s, one Redis", report.Format(rate))
				if masters > 1 {
					group = fmt.Sprintf("%s/s, a cluster of %d", report.Format(rate), masters)
				}
				if err := s.reach(ctx, r, group, masters, rate, n); err != nil {
					return fmt.Errorf("%s: %w", group, err)
				}
			}
		}
		if s.Idle == 0 {
			return nil
		}
		if err := s.footprint(ctx, r); err != nil {
			return fmt.Errorf("memory: %w", err)
		}
		return nil
	})
	if err == nil && s.Idle > 0 {
		err = s.cost(ctx, r)
	}
	if err == nil && s.Poison > 0 {
		err = s.poison(ctx, r)
	}
	return r, err
}

func (s *Nammayatri) places() []int {
	if s.Masters > 0 {
		return []int{1, s.Masters}
	}
	return []int{1}
}

// streams is a Redis, or a cluster, and a server that reads its streams.
type streams struct {
	*testbed.Site
	addrs   []string
	pids    []int // of Redis
	closers []func()
}

func (x *streams) close() {
	if x.Site != nil {
		x.Close()
	}
	for _, c := range slices.Backward(x.closers) {
		c()
	}
}

// nowhere is an address where nothing listens. The server needs none: it finds clients in Redis, and no service answers quotes.
const nowhere = "http://127.0.0.1:9"

func (s *Nammayatri) start(ctx context.Context, masters int) (x *streams, err error) {
	x = &streams{}
	defer func() {
		if err != nil {
			x.close()
		}
	}()
	if err := x.startRedis(masters); err != nil {
		return nil, err
	}
	web, release, err := freeport.Loopback(ctx)
	if err != nil {
		return nil, err
	}
	x.closers = append(x.closers, release)
	bed := *s.Testbed
	bed.Server.Args = append(slices.Clone(bed.Server.Args), "--compat", "nammayatri", "--redis", "redis://"+strings.Join(x.addrs, ",redis://"),
		"--max-shards", strconv.Itoa(s.Shards), "--auth-url", nowhere, "--driver-api-url", nowhere, "--compat-http-addr", web)
	x.Site, err = bed.NewSite(ctx, 1)
	return x, err
}

func (x *streams) startRedis(masters int) error {
	o := redisserver.Options{Memory: true}
	if masters <= 1 {
		one, err := redisserver.Start(o)
		if err != nil {
			return err
		}
		x.closers = append(x.closers, one.Close)
		x.addrs, x.pids = []string{one.Addr()}, []int{one.Pid()}
		return nil
	}
	c, err := redisserver.StartCluster(o, masters, false)
	if err != nil {
		return err
	}
	x.closers = append(x.closers, c.Close)
	for _, m := range c.Masters {
		x.addrs, x.pids = append(x.addrs, m.Addr()), append(x.pids, m.Pid())
	}
	return nil
}

// tokenLife is how long Redis keeps a token, in seconds.
const tokenLife = "86400"

// connect adds tokens for count more clients to Redis and connects these clients.
func (s *Nammayatri) connect(ctx context.Context, x *streams, prefix string, count int) (seconds float64, err error) {
	pub := redispub.NewPublisher(x.addrs, s.Shards)
	defer pub.Close()
	for n := range count {
		client := loadgen.ClientID(prefix, n)
		key := "NS:" + loadgen.ClientToken(client)
		if _, err := pub.Do(ctx, key, "SET", key, client, "EX", tokenLife); err != nil {
			return 0, fmt.Errorf("have Redis know a token: %w", err)
		}
	}
	return x.Connect(ctx, loadgen.SubscriberConfig{
		Transport: loadgen.Nammayatri, Prefix: prefix, Count: count, Concurrency: opening, Spread: true,
	}, s.Workers)
}

// publisher starts a process that publishes to the clients of a prefix.
func (s *Nammayatri) publisher(ctx context.Context, x *streams, prefix string, count int, poison bool) (*worker.Worker, error) {
	w, err := x.NewWorker(ctx)
	if err != nil {
		return nil, err
	}
	_, err = w.Call(ctx, worker.Request{Redis: &loadgen.RedisConfig{
		Addrs: x.addrs, Shards: s.Shards, Publishers: s.Publishers, Size: s.Size, Prefix: prefix, Recipients: count, Poison: poison,
	}})
	if err != nil {
		w.Stop()
		return nil, err
	}
	return w, nil
}

// reach measures how soon entries reach clients that are all online.
func (s *Nammayatri) reach(ctx context.Context, r *report.Result, group string, masters int, rate float64, run int) error {
	s.Testbed.Say("%s, run %d: starting", group, run+1)
	x, err := s.start(ctx, masters)
	if err != nil {
		return err
	}
	defer x.close()
	p := prefix()
	if _, err := s.connect(ctx, x, p, s.Clients); err != nil {
		return err
	}
	pub, err := s.publisher(ctx, x, p, s.Clients, false)
	if err != nil {
		return err
	}
	defer pub.Stop()
	if _, _, err := s.load(ctx, x, pub, rate, warmUp); err != nil { // excludes the growth that happens once in both programs
		return err
	}
	s.Testbed.Say("%s, run %d: publishing for %s", group, run+1, s.For)
	o, redis, err := s.load(ctx, x, pub, rate, s.For)
	if err != nil {
		return err
	}
	o.tell(r, group, run)
	lost, _ := arrived(o.Published.Messages, o.Counts.Received)
	r.Add(group, "entries lost", "", float64(lost))
	r.Add(group, "Redis CPU", "cores", redis.Seconds()/o.Seconds)
	r.Add(group, "Redis CPU a publish", "µs", redis.Seconds()*1e6/float64(o.Published.Accepted))
	left, err := x.left(ctx, p, s)
	if err != nil {
		return err
	}
	r.Add(group, "entries left in Redis", "", float64(left))
	r.Add(group, "load of the machine after", "", meter.Describe("").Load)
	return nil
}

// warmUp is how long the publishers run before the measurement begins.
const warmUp = 3 * time.Second

// load publishes at a rate and waits until all entries have arrived. redis is the CPU time that Redis used meanwhile.
func (s *Nammayatri) load(ctx context.Context, x *streams, pub *worker.Worker, rate float64, span time.Duration) (o *Outcome, redis time.Duration, err error) {
	if _, err := x.TakeLatency(ctx); err != nil {
		return nil, 0, err
	}
	before, err := x.Counts(ctx)
	if err != nil {
		return nil, 0, err
	}
	used, err := meter.Total(x.pids)
	if err != nil {
		return nil, 0, err
	}
	server, workers := meter.Start(x.PIDs(), sampling), meter.Start(append(x.WorkerPIDs(), pub.PID()), sampling)
	begun, stolen := time.Now(), meter.Stolen()
	reply, err := pub.Call(ctx, worker.Request{Publish: &worker.Publish{Rate: rate, For: span}})
	if err == nil && reply.Published == nil {
		err = errors.New("the publisher says nothing of what it published")
	}
	o = &Outcome{}
	var after loadgen.Counts
	if err == nil {
		o.Published, o.Expected = *reply.Published, reply.Published.Accepted
		after, err = x.AwaitReceived(ctx, before.Received+o.Expected, arrivals)
	}
	o.Seconds, o.Stolen = time.Since(begun).Seconds(), (meter.Stolen() - stolen).Seconds()
	o.Server, o.Workers = server.Stop(), workers.Stop()
	if err != nil {
		return nil, 0, err
	}
	now, err := meter.Total(x.pids)
	if err != nil {
		return nil, 0, err
	}
	o.Counts = loadgen.Counts{
		Live: after.Live, Received: after.Received - before.Received, Duplicates: after.Duplicates - before.Duplicates,
		Disorder: after.Disorder - before.Disorder, Lost: after.Lost - before.Lost, Why: after.Why,
	}
	o.Latency, err = x.TakeLatency(ctx)
	return o, now.CPU - used.CPU, err
}

// left returns the number of entries that remain in Redis after the acknowledgements have had time to arrive.
func (x *streams) left(ctx context.Context, prefix string, s *Nammayatri) (left int64, err error) {
	pub := redispub.NewPublisher(x.addrs, s.Shards)
	defer pub.Close()
	until := time.Now().Add(arrivals)
	for n := 0; n < s.Clients; {
		key := redispub.Key(loadgen.ClientID(prefix, n), s.Shards)
		answer, err := pub.Do(ctx, key, "XLEN", key)
		if err != nil {
			return 0, err
		}
		here, _ := answer.(int64)
		if here > 0 && time.Now().Before(until) {
			if err := wait(ctx, 10*time.Millisecond); err != nil {
				return 0, err
			}
			continue
		}
		left += here
		n++
	}
	return left, nil
}
