package pgdb

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Intervals and limits for noticing that this node cannot reach the database.
const (
	askEvery = 200 * time.Millisecond
	// answerPatience is how long the database may leave all connections of this process without an answer. Together with askEvery it is
	// less than the one second after which publishers must be refused.
	answerPatience = 650 * time.Millisecond
	// reachLook is the interval of checks during this patience. A check that is late by half of it does not count: this
	// process was slow, not the database.
	reachLook = 50 * time.Millisecond
	// connectPatience is how long an attempt to connect may take while the database cannot be reached.
	connectPatience = 3 * time.Second
	// The database counts as steady only if the last answered query was sent no longer ago than steadyFresh. Queries are sent every
	// askEvery, so one may be late.
	steadyFresh = 3 * askEvery
)

// errUnreachable is the error of dialing while the database cannot be reached.
var errUnreachable = errors.New("PostgreSQL cannot be reached from this node")

// Reach watches whether the database can be reached. While it cannot, all connections of the DBs that share a Reach are closed and new ones
// are refused at once, so that no caller waits for a network that drops all packets.
type Reach struct {
	cfg  *pgx.ConnConfig
	name string // of the application, as the database lists the connection
	log  *slog.Logger
	stop context.CancelFunc
	done chan struct{}

	heard  atomic.Int64 // when the database last sent something, in nanoseconds since began
	began  time.Time
	lostAt atomic.Int64 // when the database was found unreachable, likewise; 0: it can be reached
	steady steady

	reached bool // the database was reached at least once; only run uses this
	held    atomic.Int32

	mu    sync.Mutex
	conns map[*heardConn]struct{}
}

// steady records since when the database has answered every query.
type steady struct {
	mu          sync.Mutex
	since, last time.Time // when the first and the latest query of an unbroken series of answered ones were sent; since is zero if the latest query failed
}

func (s *steady) note(asked time.Time, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err != nil:
		s.since = time.Time{}
	case s.since.IsZero():
		s.since, s.last = asked, asked
	default:
		s.last = asked
	}
}

// Watch starts to watch the database of a URL, which can be reached at first.
func Watch(url string, log *slog.Logger) (*Reach, error) {
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, err // passwords are left out
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	cfg.ConnectTimeout = connectPatience
	cfg.DialFunc = dial(connectPatience)
	cfg.ValidateConnect = validateWritable
	name := takeName(cfg)
	ctx, stop := context.WithCancel(context.Background())
	r := &Reach{cfg: cfg, name: name, log: log, stop: stop, done: make(chan struct{}), began: time.Now(), conns: make(map[*heardConn]struct{})}
	go func() {
		defer close(r.done)
		r.run(ctx)
	}()
	return r, nil
}

// Hold disables the detection of silence until release is called: a starting server waits for a busy database as long as necessary.
func (r *Reach) Hold() (release func()) {
	r.held.Add(1)
	return sync.OnceFunc(func() {
		r.hear() // the patience begins now
		r.held.Add(-1)
	})
}

// Close stops watching. Connections stay open.
func (r *Reach) Close() error {
	r.stop()
	<-r.done
	return nil
}

// Lost returns how long the database has been unreachable; 0: it can be reached.
func (r *Reach) Lost() time.Duration {
	at := r.lostAt.Load()
	if at == 0 {
		return 0
	}
	return max(time.Since(r.began)-time.Duration(at), 1)
}

// Heard returns the time since the database last sent something.
func (r *Reach) Heard() time.Duration {
	return time.Since(r.began) - time.Duration(r.heard.Load())
}

// Steady returns for how long the database has answered every query; 0: it has not answered a recent one.
func (r *Reach) Steady() time.Duration {
	s := &r.steady
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.since.IsZero() || time.Since(s.last) > steadyFresh {
		return 0
	}
	return time.Since(s.since)
}

func (r *Reach) hear() { r.heard.Store(int64(time.Since(r.began))) }

func (r *Reach) run(ctx context.Context) {
	var conn *pgx.Conn
	defer func() { hangUp(conn) }()
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		var err error
		asked := time.Now()
		conn, err = r.ask(ctx, conn)
		r.steady.note(asked, err)
		r.reached = r.reached || err == nil || r.heard.Load() > 0
		if ctx.Err() == nil && r.reached && r.held.Load() == 0 { // until the first contact, opening a store reports why it cannot connect
			r.set(ctx, err)
		}
	}
}

// ask pings the database over a connection. It connects again if the connection is broken.
func (r *Reach) ask(ctx context.Context, conn *pgx.Conn) (*pgx.Conn, error) {
	if conn != nil {
		err := r.patiently(ctx, func(ctx context.Context) error { return conn.Ping(ctx) })
		if err == nil {
			return conn, nil
		}
		hangUp(conn)
		var late noAnswer
		if errors.As(err, &late) {
			return nil, err
		}
	}
	connect := func(ctx context.Context) (err error) {
		if conn, err = pgx.ConnectConfig(ctx, r.cfg); err != nil {
			return err
		}
		if _, err = conn.Exec(ctx, "SET application_name = "+quote(r.name)); err != nil {
			hangUp(conn)
		}
		return err
	}
	var err error
	if r.reached && r.Lost() == 0 {
		err = r.patiently(ctx, connect)
	} else {
		bounded, cancel := Within(ctx, connectPatience)
		err = Late(bounded, connect(bounded))
		cancel()
	}
	if err != nil {
		return nil, err
	}
	return conn, nil
}

func hangUp(conn *pgx.Conn) {
	if conn == nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // nobody waits for a farewell
	_ = conn.Close(ctx)
}

// patiently runs f until it returns, or until the database has sent nothing on any connection for answerPatience.
func (r *Reach) patiently(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ended := make(chan error, 1)
	go func() { ended <- f(ctx) }()
	tick := time.NewTicker(reachLook)
	defer tick.Stop()
	silent, heard, last := time.Duration(0), r.heard.Load(), time.Now()
	for {
		select {
		case err := <-ended:
			return err
		case <-tick.C:
			now := time.Now()
			if now.Sub(last) < reachLook*3/2 {
				silent += reachLook
			}
			last = now
			if is := r.heard.Load(); is != heard {
				silent, heard = 0, is
			}
			if silent >= answerPatience {
				cancel(noAnswer(answerPatience))
				err := <-ended
				if err == nil { // at the last moment
					return nil
				}
				return errors.Join(noAnswer(answerPatience), err)
			}
		}
	}
}

// set records whether the database can be reached.
func (r *Reach) set(ctx context.Context, err error) {
	lost := r.Lost()
	if err == nil {
		r.hear()
	}
	switch {
	case err == nil && lost > 0:
		r.lostAt.Store(0)
		r.log.InfoContext(ctx, "PostgreSQL can be reached again", "after", lost.Round(time.Millisecond))
	case err != nil && lost == 0 && r.Heard() >= answerPatience: // else another connection goes on
		r.lostAt.Store(int64(max(time.Since(r.began), 1)))
		r.log.ErrorContext(ctx, "PostgreSQL cannot be reached: publishes are refused until it can", "error", Explain(err))
		r.mu.Lock()
		defer r.mu.Unlock()
		for c := range r.conns {
			_ = c.Conn.Close()
		}
	}
}

// dial dials for a DB.
func (r *Reach) dial(under pgconn.DialFunc) pgconn.DialFunc {
	if r == nil {
		return under
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if lost := r.Lost(); lost > 0 {
			return nil, fmt.Errorf("%w, for %s now", errUnreachable, lost.Round(100*time.Millisecond))
		}
		conn, err := under(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		c := &heardConn{Conn: conn, r: r}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.conns[c] = struct{}{}
		return c, nil
	}
}

// heardConn is a connection that records when the database sent something.
type heardConn struct {
	net.Conn
	r *Reach
}

// Read implements net.Conn.
func (c *heardConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.r.hear()
	}
	return n, err
}

// Close implements net.Conn.
func (c *heardConn) Close() error {
	c.r.mu.Lock()
	delete(c.r.conns, c)
	c.r.mu.Unlock()
	return c.Conn.Close()
}
