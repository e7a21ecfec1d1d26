// Package signal delivers versions of objects to clients: it keeps their registrations and the version that each client is known to have,
// and sends every client the latest version of its objects, whatever fails in between. DESIGN.md gives the reasons.
package signal

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"godwit.dev/godwit/internal/engine/timerwheel"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/session"
	"godwit.dev/godwit/internal/objects/object"
	"godwit.dev/godwit/internal/objects/object/objectstore"
)

// Limits and timing. The client protocol documents those that clients can observe.
const (
	redeliverFirst  = 10 * time.Second
	redeliverMost   = 5 * time.Minute
	defaultRetain   = 60 * 24 * time.Hour
	storeRetry      = 2 * time.Second        // pause after a failed read or write of a client's registrations
	flushEvery      = time.Second            // acknowledgements wait this long, so that many are written together
	collectMost     = time.Hour              // longest time between two searches for clients that stay away
	collectShare    = 4                      // searches within the retention, so that a short retention is kept too
	collectBatch    = 200                    // clients dropped in one commit
	processors      = 4                      // clients processed at once
	loadBatch       = 500                    // objects read at once
	maxAnswers      = 16                     // register frames whose answers repeat their objects; further answers hold only the digest
	wheelTick       = 250 * time.Millisecond // redelivery needs no finer resolution
	batchStep       = 10 * time.Millisecond  // step by which an app's batching interval grows
	batchGrain      = 5 * time.Millisecond   // objects that are held back become ready in groups of this precision
	batchQueueing   = 50 * time.Millisecond  // queueing above which it does
	batchJudgeEvery = 100 * time.Millisecond
	batchForget     = time.Second
)

// Config are the parts and settings of a Service.
type Config struct {
	Store  objectstore.Store // which the Service observes
	Now    func() time.Time  // the store's clock; nil: mailbox.Clock()
	Log    *slog.Logger
	Retain time.Duration // registrations of clients that have been away for longer are dropped; 0: 60 days
	// MaxRegistrations is the most registrations of one device or nameless session; 0: object.MaxRegistrations.
	MaxRegistrations int
	// BatchMost is the longest time for which changes may be held back, so that several changes of one object become one. Changes are held
	// back only while objects queue for fan-out. 0: never.
	BatchMost time.Duration
	// Batch returns a group's fixed batching interval: its changes leave together when an interval ends. 0: it has none, and BatchMost
	// applies. Nil: no group has one.
	Batch func(app, group string) time.Duration
	// Workers is how many objects are fanned out at the same time; 0: one per CPU.
	Workers int
}

// Service handles the objects of all apps on this node.
type Service struct {
	cfg   Config
	log   *slog.Logger
	store objectstore.Store
	start time.Time

	index    index
	roster   roster
	workers  []*fanoutWorker
	pace     paces
	work     queue[*Client]  // clients with work to do
	unread   queue[*watched] // objects to read
	flush    flusher
	wheel    *timerwheel.Wheel[*Client]
	running  tasks
	others   atomic.Pointer[func([]objectstore.Change)] // nil: there are none
	follower atomic.Pointer[func([]objectstore.Change)] // nil: there is none
	missed   chan struct{}                              // has a token if changes of other nodes may have been lost
	ctx      context.Context                            // ends with the service
	stop     context.CancelFunc
	closing  atomic.Bool
	counts   counts
}

var (
	_ session.Capability   = (*Service)(nil)
	_ objectstore.Observer = (*Service)(nil)
)

// New makes a Service that observes its store. Close must be called.
func New(cfg Config) *Service {
	if cfg.Now == nil {
		cfg.Now = mailbox.Clock()
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Retain == 0 {
		cfg.Retain = defaultRetain
	}
	if cfg.MaxRegistrations == 0 {
		cfg.MaxRegistrations = object.MaxRegistrations
	}
	s := &Service{cfg: cfg, log: cfg.Log, store: cfg.Store, start: cfg.Now(), missed: make(chan struct{}, 1)}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.index.init()
	s.roster.init()
	s.pace.most = cfg.BatchMost
	s.work.init(&s.running, processors, func(c *Client) { c.process() })
	s.unread.init(&s.running, 1, nil)
	s.unread.batch, s.unread.most = s.readObjects, loadBatch
	s.wheel = timerwheel.New(wheelTick, func(t *timerwheel.Timer[*Client], _ time.Time) { t.Owner.due() })
	s.startWorkers()
	s.store.Observe(s)
	s.running.Go(func() { s.wheel.Run(s.ctx) })
	s.running.Go(s.keepFlushed)
	s.running.Go(s.collect)
	if shared, ok := s.store.(objectstore.Shared); ok {
		s.running.Go(func() { s.lookForNews(shared) })
	}
	return s
}

// Close writes clients' acknowledgements and returns when none of the service's goroutines runs and no call to the store is pending.
// Sessions must have ended before. Their last requests may or may not be carried out; nothing happens after Close.
func (s *Service) Close() error {
	if s.closing.Swap(true) {
		return nil
	}
	s.stop()
	s.running.wait()
	return nil
}

// second is a time in seconds since the service started: four bytes, and fine enough for redelivery.
type second uint32

func (s *Service) second() second { return second(s.cfg.Now().Sub(s.start)/time.Second) + 1 } // 0 is no time

func seconds(d time.Duration) second { return second((d + time.Second - 1) / time.Second) }

// backoff is how long an attempt waits for its acknowledgement: 10 s, doubling to 5 minutes.
func backoff(attempt uint8) second {
	return seconds(min(redeliverFirst<<min(attempt-1, 8), redeliverMost))
}
