package redisstream

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"godwit.dev/godwit/internal/engine/pause"
	"godwit.dev/godwit/internal/notify/inbox"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/session"
)

var (
	_ session.Store   = (*Store)(nil)
	_ session.Mailbox = (*Store)(nil)
)

// Config describes the streams.
type Config struct {
	URLs      []string // redis:// or rediss://; several: servers of a cluster
	Cluster   bool     // set by Open: the server is one of a cluster
	App       string   // of every item
	MaxShards int      // a power of two, the publishers'
	AnyShards bool     // take any number for MaxShards
	Observer  Observer // nil: nobody
	Log       *slog.Logger
	Now       func() time.Time
}

// Observer is called for events that metrics count. It is called from few goroutines and must not wait.
type Observer interface {
	// Found: an entry was read for the first time since its client is online.
	Found(category string)
	// Sent: the entry was written to a connection. stored is when Redis stored it; again: it was written before; how is one of Catchup,
	// Fresh and Retry.
	Sent(category string, stored time.Time, again bool, how string)
	// Acked: a client acknowledged the entry, which is deleted. For unknown entries the category is UNKNOWN, and lastSent zero.
	Acked(category string, lastSent time.Time)
	// Expired: the entry expired and is deleted. sent: it had been written to a connection.
	Expired(category string, sent bool)
	// Poisoned: an entry cannot be read and was set aside.
	Poisoned(key string, err error)
	// CleanupSkipped: entries could not be deleted now; the deletion is retried.
	CleanupSkipped(origin string)
}

// The ways in which a sent entry was found, with the replaced service's names.
const (
	Catchup = "catchup"
	Fresh   = "pubsub_fresh"
	Retry   = "retry"
)

// Unknown is the category of acknowledgements for unknown entries.
const Unknown = "UNKNOWN"

// Store holds the streams of online clients. It is a session.Store and session.Mailbox.
type Store struct {
	cfg    Config
	log    *slog.Logger
	link   *link
	finder *finder
	slot   []uint16 // of each shard

	seed    maphash.Seed
	buckets [buckets]bucket
	router  atomic.Pointer[mailbox.Router]
	recent  recent
	due     dues
	logged  logged
	strays  *strays // nil: each client has one stream

	mu     sync.Mutex
	queues map[string]*masterQueue

	wg   sync.WaitGroup // of what queues do
	ctx  context.Context
	stop context.CancelFunc
}

// maxShards is as many as a cluster has slots.
const maxShards = slots

// Streams are distributed to buckets, so that connects on several cores rarely contend and a sweep can process a part at a time.
const buckets = 256

type bucket struct {
	mu sync.RWMutex
	m  map[string]*stream // by client
}

// Open connects to Redis, which must answer within 10 s. Close must be called.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	if cfg.MaxShards < 1 || cfg.MaxShards > maxShards || !cfg.AnyShards && cfg.MaxShards&(cfg.MaxShards-1) != 0 {
		return nil, fmt.Errorf("open streams in Redis: %d shards are no power of two (up to 16384), so that publishers and this server would not agree on keys", cfg.MaxShards)
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = mailbox.Clock()
	}
	if cfg.Observer == nil {
		cfg.Observer = nobody{}
	}
	l, err := dial(ctx, cfg.URLs)
	if err != nil {
		return nil, err
	}
	cfg.Cluster = l.cluster
	s := &Store{cfg: cfg, log: cfg.Log, link: l, seed: maphash.MakeSeed(), queues: make(map[string]*masterQueue)}
	s.finder = &finder{link: l, log: cfg.Log, told: s.hint, missed: s.missed, heard: s.heard}
	if cfg.MaxShards&(cfg.MaxShards-1) != 0 {
		s.strays = newStrays(s)
	}
	if err := s.finder.choose(ctx); err != nil {
		l.close()
		return nil, err
	}
	s.slot = make([]uint16, cfg.MaxShards)
	for shard := range s.slot {
		s.slot[shard] = l.slotOf(fmt.Sprintf("{%d}", shard))
	}
	for i := range s.buckets {
		s.buckets[i].m = make(map[string]*stream)
	}
	s.RouteTo(nowhere{}, nil)
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s, nil
}

// Run finds new entries, deletes expired ones, and reads all streams again now and then. It returns when ctx ends.
func (s *Store) Run(ctx context.Context) error {
	s.log.InfoContext(ctx, "reading streams of redis", "finding", s.Finding(), "cluster", s.cfg.Cluster, "shards", s.cfg.MaxShards)
	var wg sync.WaitGroup
	wg.Go(func() { s.finder.run(ctx) })
	wg.Go(func() { s.sweep(ctx) })
	wg.Go(func() { s.expire(ctx) })
	wg.Go(func() { s.cleanUp(ctx) })
	if s.strays != nil {
		wg.Go(func() { s.strays.run(ctx) })
	}
	wg.Wait()
	return nil
}

// Close waits until acknowledged entries are deleted, or until ctx ends. Run must have returned.
func (s *Store) Close(ctx context.Context) error {
	left := s.departing()
	for left > 0 && s.link.ping(ctx) == nil && pause.For(ctx, 5*time.Millisecond) {
		left = s.departing()
	}
	s.stop()
	s.wg.Wait()
	s.link.close()
	if left > 0 {
		return fmt.Errorf("close streams in Redis: %d acknowledged or expired entries could not be deleted and will come once more", left)
	}
	return nil
}

// Ready returns the reason why Redis cannot be read now, or nil.
func (s *Store) Ready(ctx context.Context) error { return s.link.ping(ctx) }

// Finding returns how new entries are found.
func (s *Store) Finding() string { return s.finder.finding() }

// Cluster reports whether Redis is a cluster.
func (s *Store) Cluster() bool { return s.cfg.Cluster }

// RouteTo implements session.Mailbox.
func (s *Store) RouteTo(r mailbox.Router, _ mailbox.Presence) { s.router.Store(&r) }

func (s *Store) route() mailbox.Router { return *s.router.Load() }

// now is the time in milliseconds.
func (s *Store) now() int64 { return s.cfg.Now().UnixMilli() }

func (s *Store) bucket(client string) *bucket {
	return &s.buckets[maphash.String(s.seed, client)%buckets]
}

// Joined reports that a session of a client was opened. It does not wait: the session's first call of Pending reads the stream.
func (s *Store) Joined(client string) {
	client = Recipient(client)
	b := s.bucket(client)
	b.mu.Lock()
	defer b.mu.Unlock()
	st := b.m[client]
	if st == nil {
		key := Key(client, s.cfg.MaxShards)
		client = key[len(prefix) : len(prefix)+len(client)] // one string for both
		st = &stream{key: key, client: client, shard: uint16(ShardOf(client, s.cfg.MaxShards))}
		b.m[client] = st
	}
	st.mu.Lock()
	st.sessions++
	st.mu.Unlock()
	s.strays.look(st.client)
}

// Left reports that a session of a client was closed. After the last one the client's state is dropped, except for entries still to be
// deleted.
func (s *Store) Left(client string) {
	client = Recipient(client)
	b := s.bucket(client)
	b.mu.Lock()
	defer b.mu.Unlock()
	st := b.m[client]
	if st == nil {
		return
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.sessions > 0 {
		if st.sessions--; st.sessions > 0 {
			return
		}
		st.leave()
	}
	if len(st.entries) == 0 {
		delete(b.m, client)
	}
}

// online returns the stream of a client; nil: the client is offline.
func (s *Store) online(client string) *stream {
	b := s.bucket(client)
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.m[client]
}

// release drops the stream of a client that went offline while entries were still to be deleted.
func (s *Store) release(st *stream) {
	b := s.bucket(st.client)
	b.mu.Lock()
	defer b.mu.Unlock()
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.sessions == 0 && !st.departs() && b.m[st.client] == st {
		delete(b.m, st.client)
	}
}

// all appends the streams of one bucket.
func (b *bucket) all(to []*stream) []*stream {
	b.mu.RLock()
	defer b.mu.RUnlock()
	for _, st := range b.m {
		to = append(to, st)
	}
	return to
}

// Token looks up the client of a token.
func (s *Store) Token(ctx context.Context, token string) (client string, ok bool, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, callWithin, errTokenLate)
	defer cancel()
	res := s.link.main.Do(ctx, s.link.main.B().Get().Key(tokenPrefix+token).Build())
	if client, err = res.ToString(); err != nil {
		if isNil(err) {
			return "", false, nil
		}
		return "", false, fmt.Errorf("look a token up in Redis: %w", err)
	}
	return client, true, nil
}

// KeepToken stores the client of a token.
func (s *Store) KeepToken(ctx context.Context, token, client string, expiry time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, callWithin, errTokenLate)
	defer cancel()
	set := s.link.main.B().Set().Key(tokenPrefix + token).Value(client).Px(max(expiry, time.Millisecond)).Build()
	if err := s.link.main.Do(ctx, set).Error(); err != nil {
		return fmt.Errorf("keep a token in Redis: %w", err)
	}
	return nil
}

var errTokenLate = errors.New("no answer from Redis in time")

// nobody is the observer of a store without one.
type nobody struct{}

func (nobody) Found(string)                         {}
func (nobody) Sent(string, time.Time, bool, string) {}
func (nobody) Acked(string, time.Time)              {}
func (nobody) Expired(string, bool)                 {}
func (nobody) Poisoned(string, error)               {}
func (nobody) CleanupSkipped(string)                {}

// nowhere replaces the sessions of a store that has none yet.
type nowhere struct{}

func (nowhere) Route([]mailbox.Item)       {}
func (nowhere) Settled([]mailbox.Settled)  {}
func (nowhere) Inboxes([]inbox.Change)     {}
func (nowhere) Hold([]inbox.Change) func() { return func() {} }
func (nowhere) Reread(string, string)      {}
