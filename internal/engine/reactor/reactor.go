// Package reactor serves many mostly idle connections with little memory: epoll loops read into a shared buffer and pass the bytes to a
// push parser; writes go directly to the socket and are queued only when it is full. The package handles bytes, not notifications. On
// systems without epoll, a portable driver runs the same handlers with one goroutine per connection, which holds no buffer.
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

	"godwit.dev/godwit/internal/engine/memory"
	"godwit.dev/godwit/internal/engine/stage"
	"godwit.dev/godwit/internal/engine/timerwheel"
)

// Handler is the protocol on a connection. The connection's loop calls Data, Tick, Drained and Closed one at a time, without holding a
// lock.
type Handler interface {
	// Data parses b and returns how many bytes it has used; the rest is passed again with more bytes after it (after Conn.Resume perhaps
	// with none). b is valid only until Data returns; the handler may overwrite it. An error closes the connection.
	Data(b []byte) (used int, err error)
	// Drained is called when a write queue has become empty, whether or not a write was refused before.
	Drained()
	// Tick is called at the time set by Conn.SetTimer.
	Tick(now time.Time)
	// Closed is the last call, made once after the descriptor is closed. err is the reason (io.EOF: the peer ended the connection).
	Closed(err error)
}

// Ender is a Handler that is notified when the peer has sent its last byte and the handler has not used all bytes: it may then release the
// connection. Otherwise Closed follows.
type Ender interface {
	Ended()
}

// Config bounds a reactor.
type Config struct {
	Loops      int    // number of epoll loops; 0: one per CPU
	Driver     string // "epoll", "goroutine", or "" for the best available one
	QueueBytes int    // maximum bytes queued on one connection; an empty queue accepts one write of any size. 0: 256 KiB
	InputBytes int    // maximum bytes of an incomplete frame kept between reads; 0: 1 MiB (a handler may refuse earlier)
	TotalBytes int64  // maximum bytes queued on all connections; beyond it, those with the largest queues are closed. 0: a quarter of the memory limit
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

// lingerTime is how long the peer of a closing connection may take to accept the last bytes and to close its side.
const lingerTime = 5 * time.Second

// Reasons for which the reactor itself ends a connection.
var (
	ErrReactorClosed = errors.New("the reactor was closed")
	ErrInputTooLong  = errors.New("the peer sent an incomplete frame longer than the limit")
	ErrOverBudget    = errors.New("the queues of all connections together exceeded their limit")
	ErrFirstByte     = errors.New("the peer sent nothing in time")
)

// Reactor owns its loops and all connections on them.
type Reactor struct {
	cfg    Config
	log    *slog.Logger
	start  time.Time
	linger time.Duration

	loops []*loop
	next  atomic.Uint32 // selects the loop of the next connection

	ctx  context.Context // ends the accepting goroutines, which belong to the reactor
	stop context.CancelFunc
	wg   sync.WaitGroup // loops, ticker, budget
	once sync.Once

	conns    atomic.Int64
	budget   *memory.Budget // of bytes in queues
	over     chan struct{}  // wakes the budget goroutine
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
	if cfg.Driver == "" {
		cfg.Driver = bestDriver
	}
	r := &Reactor{cfg: cfg, log: log, start: time.Now(), linger: lingerTime, budget: memory.NewBudget(cfg.TotalBytes), over: make(chan struct{}, 1)}
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
	for i, l := range r.loops {
		r.wg.Go(func() {
			stage.Mark("loop", i)
			l.run()
		})
	}
	r.wg.Go(r.tick)
	r.wg.Go(r.guardBudget)
	return r, nil
}

// Close ends every Serve, closes every connection at once (handlers get ErrReactorClosed) and waits for all goroutines. For an orderly end,
// close the connections with CloseAfterFlush and call Drain before.
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
	tk := time.NewTicker(10 * time.Millisecond) // polling suffices: it delays the end of a process by at most a hundredth of a second
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

// QueueBytes returns the most bytes that are queued on one connection.
func (r *Reactor) QueueBytes() int { return r.cfg.QueueBytes }

// Stats reads the counters.
func (r *Reactor) Stats() Stats {
	s := Stats{Driver: r.cfg.Driver, Loops: len(r.loops), Connections: int(r.conns.Load()), Queued: r.budget.Held()}
	for _, l := range r.loops {
		s.BytesIn += l.bytesIn.Load()
		s.BytesOut += l.bytesOut.Load()
	}
	return s
}

// tick makes the loops that have timers check them.
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

// nextLoop selects the loop for a new connection.
func (r *Reactor) nextLoop() *loop {
	return r.loops[int(r.next.Add(1)-1)%len(r.loops)]
}

// now returns the reactor's monotonic time in nanoseconds, so compact that connections can store it.
func (r *Reactor) now() int64 { return int64(time.Since(r.start)) }
