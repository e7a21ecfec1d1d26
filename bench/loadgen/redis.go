package loadgen

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"godwit.dev/godwit/bench/latency"
	"godwit.dev/godwit/bench/redispub"
)

// RedisConfig sets the messages published into the streams of nammayatri's notification-service.
type RedisConfig struct {
	Addrs      []string `json:"addrs"` // addresses of Redis, or of nodes of a cluster
	Shards     int      `json:"shards"`
	Publishers int      `json:"publishers"` // number of publishers; each has a connection to each server
	Size       int      `json:"size"`       // bytes of an entry's data
	Prefix     string   `json:"prefix"`     // of the clients' names
	Recipients int      `json:"recipients"`
	Poison     bool     `json:"poison"` // make all entries unreadable: their ttl is not a time
}

// RedisPublishers publish as nammayatri's back ends do.
type RedisPublishers struct {
	cfg     RedisConfig
	writers []*redisWriter
	latency *latency.Histogram
}

// redisWriter publishes to its share of the clients, so each client's messages keep their order.
type redisWriter struct {
	all  *RedisPublishers
	pub  *redispub.Publisher
	seqs map[int]uint64
	jobs chan job
	sums Published
}

// redisBacklog is the number of publishes that may wait for one writer. Further publishes count as unsent.
const redisBacklog = 100_000

// NewRedisPublishers makes publishers.
func NewRedisPublishers(ctx context.Context, cfg RedisConfig) (*RedisPublishers, error) {
	if len(cfg.Addrs) == 0 || cfg.Recipients < 1 || cfg.Publishers < 1 || cfg.Shards < 1 {
		return nil, errors.New("publishing into Redis needs a server, shards, publishers and recipients")
	}
	cfg.Size = max(cfg.Size, minData)
	p := &RedisPublishers{cfg: cfg, latency: latency.New()}
	for range min(cfg.Publishers, cfg.Recipients) {
		w := &redisWriter{all: p, pub: redispub.NewPublisher(cfg.Addrs, cfg.Shards), seqs: make(map[int]uint64)}
		p.writers = append(p.writers, w)
		if _, err := w.pub.Do(ctx, "", "PING"); err != nil {
			return nil, fmt.Errorf("connect a publisher to Redis: %w", err)
		}
	}
	return p, nil
}

// Run publishes rate entries a second for span, to the clients in turn, and waits for Redis's answers.
func (p *RedisPublishers) Run(ctx context.Context, rate float64, span time.Duration) (all Published, err error) {
	if rate <= 0 {
		return all, errors.New("publishing into Redis needs a rate")
	}
	var wg sync.WaitGroup
	for _, w := range p.writers {
		w.sums, w.jobs = Published{}, make(chan job, redisBacklog)
		wg.Go(func() { w.run(ctx) })
	}
	begun := Now()
	pace(ctx, begun, begun+int64(span), float64(time.Second)/rate, func(i int, due int64) {
		to := i % p.cfg.Recipients
		all.Messages++
		select {
		case p.writers[to%len(p.writers)].jobs <- job{due: due, to: to}:
		default:
			all.Unsent++
		}
	})
	for _, w := range p.writers {
		close(w.jobs)
	}
	wg.Wait()
	for _, w := range p.writers {
		all.Requests += w.sums.Requests
		all.Accepted += w.sums.Accepted
		all.Refused += w.sums.Refused
		if all.Why == "" {
			all.Why = w.sums.Why
		}
	}
	all.Seconds, all.Latency = time.Duration(Now()-begun).Seconds(), p.latency.Take()
	if ctx.Err() != nil {
		return all, context.Cause(ctx)
	}
	if all.Accepted == 0 {
		return all, fmt.Errorf("publish into Redis: %s", all.Why)
	}
	return all, nil
}

func (w *redisWriter) run(ctx context.Context) {
	data, stamp := makeData(w.all.cfg.Size)
	for j := range w.jobs {
		if ctx.Err() != nil {
			continue
		}
		putStamp(data[stamp:], j.due)
		client := ClientID(w.all.cfg.Prefix, j.to)
		seq := w.seqs[j.to] + 1
		now := time.Now()
		e := redispub.Entry{
			ID: client + "-" + strconv.FormatUint(seq, 10), Category: "NEW_RIDE_AVAILABLE", Title: titleMark + strconv.FormatUint(seq, 10),
			Body: "New ride request", Show: "SHOW", EntityID: client, EntityType: "SearchRequest", Entity: string(data),
			CreatedAt: redispub.Haskell(now, 0), TTL: redispub.Haskell(now.Add(time.Hour), 0),
		}
		if w.all.cfg.Poison {
			e.TTL = "tomorrow"
		}
		_, err := w.pub.Publish(ctx, client, &e)
		w.all.latency.Record(time.Duration(Now() - j.due))
		w.sums.Requests++
		if err != nil {
			w.sums.Refused++
			w.sums.Why = err.Error()
			continue
		}
		w.seqs[j.to] = seq
		w.sums.Accepted++
	}
}
