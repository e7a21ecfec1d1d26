// Package reactor serves many mostly idle connections with little memory: epoll loops read into a shared buffer
// and hand the bytes to a push parser; writes go out inline and are queued only when the socket is full. It knows
// bytes, not notifications. Where there is no epoll a portable driver runs the same handlers with one bufferless
// goroutine a connection.
package reactor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"godwit.dev/godwit/internal/engine/timerwheel"
)

// Handler is the protocol on a connection. The reactor calls Data, Tick, Drained and Closed one at a time per
// connection, from the connection's loop, holding no lock.
type Handler interface {
	// Data parses b and returns how many bytes it is done with; the rest comes again, with more behind it (after
	// Conn.Resume perhaps with nothing more). b is valid, and may be overwritten by the handler, only until Data
	// returns. An error closes the connection.
	Data(b []byte) (used int, err error)
	// Drained is called when a write queue has run empty, whether or not it had refused a write.
	Drained()
	// Tick is called when the time set by Conn.SetTimer has come.
	Tick(now time.Time)
	// Closed is the last call, once, after the descriptor is closed. err says why (io.EOF: the peer ended it).
	Closed(err error)
}

// Ender is a Handler that is told when the peer has sent its last byte and some are left which the handler has not used: it
// may release the connection then. Otherwise Closed follows.
type Ender interface {
	Ended()
}

// Config bounds a reactor.
type Config struct {
	Loops      int    // epoll loops; 0: one per CPU
	Driver     string // "epoll", "goroutine", or "" for the best there is
	QueueBytes int    // most bytes queued on one connection; an empty queue takes one write of any size. 0: 256 KiB
	InputBytes int    // most bytes of an incomplete frame kept between reads; 0: 1 MiB (a handler may refuse earlier)
	TotalBytes int64  // most bytes queued on all; beyond it the largest queues are closed. 0: a quarter of the memory limit
}

// Defaults of Config.
const (
	DefaultQueueBytes = 256 << 10
	DefaultInputBytes = 1 << 20
)

// Names of the drivers.
const (
	DriverEpoll     = "epoll"
	DriverGoroutine = "goroutine"
)

// lingerTime is how long a connection that is being closed may take to accept its last bytes and to close its side.
const lingerTime = 5 * time.Second

// Reasons a connection ends that the reactor itself decides.
var (
	ErrReactorClosed = errors.New("the reactor was closed")
	ErrInputTooLong  = errors.New("the peer sent an incomplete frame longer than the limit")
	ErrOverBudget    = errors.New("the queues of all connections together exceeded their limit")
	ErrFirstByte     = errors.New("the peer sent nothing in time")
)

// Reactor owns its loops and every connection on them.
type Reactor struct {
	cfg    Config
	log    *slog.Logger
	start  time.Time
	linger time.Duration

	loops []*loop
	next  atomic.Uint32 // which loop takes the next connection

	ctx  context.Context // ends the accepting goroutines, which belong to the reactor
	stop context.CancelFunc
	wg   sync.WaitGroup // loops, ticker, budget
	once sync.Once

	conns    atomic.Int64
	queued   atomic.Int64
	over     chan struct{} // wakes the budget goroutine
	admitLog rateLog
}

// Stats is a snapshot of a reactor's counters.
type Stats struct {
	Driver      string
	Loops       int
	Connections int
	Queued      int64 // bytes waiting in write queues
	BytesIn     uint64
	BytesOut    uint64
}

// New starts a reactor.
func New(cfg Config, log *slog.Logger) (*Reactor, error) {
	if cfg.Loops <= 0 {
		cfg.Loops = runtime.GOMAXPROCS(0)
	}
	if cfg.QueueBytes <= 0 {
		cfg.QueueBytes = DefaultQueueBytes
	}
	if cfg.InputBytes <= 0 {
		cfg.InputBytes = DefaultInputBytes
	}
	if cfg.TotalBytes <= 0 {
		cfg.TotalBytes = memoryLimit() / 4
	}
	if cfg.Driver == "" {
		cfg.Driver = bestDriver
	}
	r := &Reactor{cfg: cfg, log: log, start: time.Now(), linger: lingerTime, over: make(chan struct{}, 1)}
	for range cfg.Loops {
		p, err := newPoller(cfg.Driver)
		if err != nil {
			for _, l := range r.loops {
				l.poll.close()
			}
			return nil, fmt.Errorf("start %s loop: %w", cfg.Driver, err)
		}
		r.loops = append(r.loops, newLoop(r, p))
	}
	r.ctx, r.stop = context.WithCancel(context.Background())
	for _, l := range r.loops {
		r.wg.Go(l.run)
	}
	r.wg.Go(r.tick)
	r.wg.Go(r.guardBudget)
	return r, nil
}

// Close ends every Serve, closes every connection at once (handlers see ErrReactorClosed) and waits for all
// goroutines. For a polite end close the connections with CloseAfterFlush and Drain first.
func (r *Reactor) Close() error {
	r.once.Do(func() {
		r.stop()
		for _, l := range r.loops {
			l.close()
		}
	})
	r.wg.Wait()
	return nil
}

// Drain waits until no connection is left, or ctx ends.
func (r *Reactor) Drain(ctx context.Context) error {
	tk := time.NewTicker(10 * time.Millisecond) // the end of a process may take a hundredth of a second longer
	defer tk.Stop()
	for r.conns.Load() > 0 {
		select {
		case <-tk.C:
		case <-ctx.Done():
			return fmt.Errorf("drain %d connections: %w", r.conns.Load(), context.Cause(ctx))
		}
	}
	return nil
}

// Stats reads the counters.
func (r *Reactor) Stats() Stats {
	s := Stats{Driver: r.cfg.Driver, Loops: len(r.loops), Connections: int(r.conns.Load()), Queued: r.queued.Load()}
	for _, l := range r.loops {
		s.BytesIn += l.bytesIn.Load()
		s.BytesOut += l.bytesOut.Load()
	}
	return s
}

// tick makes the loops that have timers look at them.
func (r *Reactor) tick() {
	tk := time.NewTicker(timerwheel.DefaultTick)
	defer tk.Stop()
	for {
		select {
		case <-r.ctx.Done():
			return
		case <-tk.C:
		}
		for _, l := range r.loops {
			if l.wheel.Len() > 0 {
				l.tickDue.Store(true)
				l.wake()
			}
		}
	}
}

// nextLoop picks the loop of a new connection.
func (r *Reactor) nextLoop() *loop {
	return r.loops[int(r.next.Add(1)-1)%len(r.loops)]
}

// now is the reactor's monotonic clock in nanoseconds, compact enough to keep in a connection.
func (r *Reactor) now() int64 { return int64(time.Since(r.start)) }
