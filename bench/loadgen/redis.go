package loadgen

import (
	"context"
	"errors"
	"fmt"
	"strconv"
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
	turns
	cfg     RedisConfig
	writers []*redisWriter
}

// redisWriter publishes to its share of the clients, so each client's messages keep their order.
type redisWriter struct {
	cfg   *RedisConfig
	pub   *redispub.Publisher
	seqs  map[int]uint64
	data  []byte
	stamp int
}

// NewRedisPublishers makes publishers.
func NewRedisPublishers(ctx context.Context, cfg RedisConfig) (*RedisPublishers, error) {
	if len(cfg.Addrs) == 0 || cfg.Recipients < 1 || cfg.Publishers < 1 || cfg.Shards < 1 {
		return nil, errors.New("publishing into Redis needs a server, shards, publishers and recipients")
	}
	cfg.Size = max(cfg.Size, minData)
	p := &RedisPublishers{cfg: cfg}
	p.turns = turns{writers: min(cfg.Publishers, cfg.Recipients), recipients: cfg.Recipients, latency: latency.New(), write: func(ctx context.Context, writer int, j job) error {
		return p.writers[writer].write(ctx, j)
	}}
	for range p.turns.writers {
		w := &redisWriter{cfg: &p.cfg, pub: redispub.NewPublisher(cfg.Addrs, cfg.Shards), seqs: make(map[int]uint64)}
		w.data, w.stamp = makeData(cfg.Size)
		p.writers = append(p.writers, w)
		if _, err := w.pub.Do(ctx, "", "PING"); err != nil {
			return nil, fmt.Errorf("connect a publisher to Redis: %w", err)
		}
	}
	return p, nil
}

func (w *redisWriter) write(ctx context.Context, j job) error {
	putStamp(w.data[w.stamp:], j.due)
	client := ClientID(w.cfg.Prefix, j.to)
	seq := w.seqs[j.to] + 1
	now := time.Now()
	e := redispub.Entry{
		ID: client + "-" + strconv.FormatUint(seq, 10), Category: "NEW_RIDE_AVAILABLE", Title: titleMark + strconv.FormatUint(seq, 10),
		Body: "New ride request", Show: "SHOW", EntityID: client, EntityType: "SearchRequest", Entity: string(w.data),
		CreatedAt: redispub.Haskell(now, 0), TTL: redispub.Haskell(now.Add(time.Hour), 0),
	}
	if w.cfg.Poison {
		e.TTL = "tomorrow"
	}
	if _, err := w.pub.Publish(ctx, client, &e); err != nil {
		return err
	}
	w.seqs[j.to] = seq
	return nil
}
