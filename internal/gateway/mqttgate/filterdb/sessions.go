package filterdb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"godwit.dev/godwit/internal/store/sqltx"
)

// Limits of stored sessions.
const (
	maxSessions    = 1_000_000 // of an app; nodes count those of others every countEvery
	maxOfRecipient = 1024      // of a recipient
	countEvery     = 10 * time.Minute
	maxWaiting     = 100_000 // changes that wait for a store that fails; the oldest are lost
	sliceOfRows    = 100     // rows of one statement
	sliceOfSwept   = 500     // sessions that one commit ends because their time is over
)

// Slack is how long a session is kept beyond its time while its client is connected. Extend is called before half of it has passed. If a node dies and
// does not come back, the sessions of its clients last that much longer.
const Slack = time.Hour

// Subscription is a filter that a client has subscribed to.
type Subscription struct {
	Filter  string `json:"f"`
	QoS     byte   `json:"q,omitempty"`
	NoLocal bool   `json:"l,omitempty"`
	ID      uint32 `json:"i,omitempty"` // its identifier; 0: none
}

// Opening is what a client that connects asks for.
type Opening struct {
	Of     Device
	Clean  bool          // a session of before is discarded
	Expiry time.Duration // how long the session outlasts the connection
}

// Found is the session of a client that has connected.
type Found struct {
	Owner         int64 // names the connection in later calls; 0: the session is not stored
	Former        int64 // the owner before; 0: there was no session
	Over          bool  // there was one, and its time is over
	Subscriptions []Subscription
}

// SessionsConfig are the parts of Sessions.
type SessionsConfig struct {
	DB      sqltx.Database
	Node    string
	Several bool // other nodes change sessions too
	Now     func() time.Time
	Log     *slog.Logger
}

// Sessions stores the subscriptions of clients whose sessions outlast their connections, so that a client has its session after a restart of the
// server and on another node. A row belongs to the connection that came last: changes of an earlier one have no effect. Changes of a device
// are carried out in order, and all that wait share a commit.
type Sessions struct {
	cfg     SessionsConfig
	mu      sync.Mutex
	waiting []op
	running bool
	failing error               // why the last commit failed; nil: it did not
	known   map[uint64]struct{} // hashes of the devices that may have rows; nil: any may
	seed    maphash.Seed
	counts  map[string]int // rows by app
	counted time.Time
	workers sync.WaitGroup
	closing chan struct{}
	close   sync.Once
	ctx     context.Context // ends with the store
	stop    context.CancelFunc
}

// op is a change of a session.
type op struct {
	of     Device
	what   deed
	owner  int64
	clean  bool
	expiry time.Duration
	until  time.Time // of a session whose client leaves
	subs   string    // of a store or an adopt
	found  func(Found, error)
	done   func(error) // may be nil
}

// deed is a kind of op.
type deed uint8

const (
	takes    deed = iota // a client connects
	adopts               // a session that could not be taken is stored
	stores               // the subscriptions
	leaves               // the client has gone
	ends                 // the session
	discards             // the session, whoever owns it
)

// OpenSessions makes Sessions. When it starts, no client of this node is connected: sessions that a crash left connected last from now on for as long as
// their clients asked. Close must be called.
func OpenSessions(ctx context.Context, cfg SessionsConfig) (*Sessions, error) {
	s := &Sessions{cfg: cfg, seed: maphash.MakeSeed(), closing: make(chan struct{})}
	s.ctx, s.stop = context.WithCancel(context.Background())
	for _, step := range []func(context.Context) error{s.settle, s.count, s.know} {
		if err := step(ctx); err != nil {
			s.stop()
			return nil, err
		}
	}
	return s, nil
}

// settle ends the connections of the process before.
func (s *Sessions) settle(ctx context.Context) error {
	const where = " WHERE connected <> 0 AND (node = $1 OR CAST($2 AS text) <> '')"
	var left bool
	alone := "alone"
	if s.cfg.Several {
		alone = ""
	}
	err := s.cfg.DB.Read(ctx, "read which clients of MQTT were connected", func(ctx context.Context, tx sqltx.Tx) error {
		left = false
		return tx.Each(ctx, "SELECT 1 FROM session"+where+" LIMIT 1", []any{s.cfg.Node, alone}, func(sqltx.Row) error { left = true; return nil })
	})
	if err != nil || !left {
		return err
	}
	return s.cfg.DB.Change(ctx, "end the connections of MQTT clients", func(ctx context.Context, tx sqltx.Tx) error {
		const filters = `UPDATE filter SET until = (SELECT s.until FROM session s WHERE s.app = filter.app AND s.recipient = filter.recipient AND s.device = filter.device)
			WHERE EXISTS (SELECT 1 FROM session s WHERE s.app = filter.app AND s.recipient = filter.recipient AND s.device = filter.device AND s.connected = 0 AND s.until < filter.until)`
		if _, err := tx.Exec(ctx, "UPDATE session SET connected = 0, until = CAST($3 AS bigint) + expiry"+where, s.cfg.Node, alone, s.cfg.Now().UnixMilli()); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, filters)
		return err
	})
}

// count counts the rows of each app.
func (s *Sessions) count(ctx context.Context) error {
	counts := make(map[string]int)
	err := s.cfg.DB.Read(ctx, "count the sessions of MQTT clients", func(ctx context.Context, tx sqltx.Tx) error {
		clear(counts)
		return tx.Each(ctx, "SELECT app, count(*) FROM session GROUP BY app", nil, func(r sqltx.Row) error {
			var app string
			var n int64
			err := r.Scan(&app, &n)
			counts[app] = int(n)
			return err
		})
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts, s.counted = counts, s.cfg.Now()
	return nil
}

// know notes whose rows there are, if no other node makes any.
func (s *Sessions) know(ctx context.Context) error {
	if s.cfg.Several {
		return nil
	}
	return s.cfg.DB.Read(ctx, "read whose sessions of MQTT are stored", func(ctx context.Context, tx sqltx.Tx) error {
		s.known = make(map[uint64]struct{})
		return tx.Each(ctx, "SELECT app, recipient, device FROM session", nil, func(r sqltx.Row) error {
			d, err := deviceOf(r)
			s.known[s.hash(d)] = struct{}{}
			return err
		})
	})
}

func (s *Sessions) hash(d Device) uint64 { return maphash.Comparable(s.seed, d) }

// Close carries out what waits, and ends Sessions.
func (s *Sessions) Close() error {
	s.close.Do(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		close(s.closing) // no worker starts any more
	})
	s.workers.Wait()
	s.stop()
	return nil
}

var errClosed = errors.New("the store of MQTT sessions is closed")

// Take gives a client that connects its session, or discards it, and calls found once that is on disk. After an error the session is not stored: Adopt
// stores it later; what is discarded is then discarded later.
func (s *Sessions) Take(o Opening, found func(Found, error)) {
	if now, err := s.begin(o, found); now {
		found(Found{}, err)
	}
}

// begin queues the op of a client that connects. now: it need not wait for it.
func (s *Sessions) begin(o Opening, found func(Found, error)) (now bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, has := s.known[s.hash(o.Of)]
	switch {
	case o.Expiry == 0 && s.known != nil && !has:
		return true, nil
	case o.Expiry == 0 && o.Clean: // such a client's answer does not depend on what there was
		q := op{of: o.Of, what: discards}
		if now = s.failing != nil || s.ended(); !now {
			q.found = found
		}
		s.add(q)
		return now, nil
	case s.failing != nil: // else clients would wait for the store one by one
		return true, s.failing
	case s.ended():
		return true, errClosed
	}
	s.add(op{of: o.Of, what: takes, owner: newOwner(), clean: o.Clean, expiry: o.Expiry, found: found})
	return false, nil
}

// newOwner names a connection.
func newOwner() int64 { return 1 + rand.Int64N(math.MaxInt64) }

// Adopt stores the session of a connected client whose Take has failed, as soon as it can.
func (s *Sessions) Adopt(d Device, expiry time.Duration, subs []Subscription) (owner int64) {
	owner = newOwner()
	s.put(op{of: d, what: adopts, owner: owner, expiry: expiry, subs: encode(subs)})
	return owner
}

// Store stores the subscriptions of a session, and calls done once they are on disk, or with the error that keeps them from it. If done is nil, that is tried
// again.
func (s *Sessions) Store(d Device, owner int64, subs []Subscription, done func(error)) {
	s.put(op{of: d, what: stores, owner: owner, subs: encode(subs), done: done})
}

// Leave notes that a session's client has gone, and how long the session lasts from now on.
func (s *Sessions) Leave(d Device, owner int64, expiry time.Duration) {
	s.put(op{of: d, what: leaves, owner: owner, expiry: expiry, until: s.cfg.Now().Add(expiry)})
}

// End ends a session.
func (s *Sessions) End(d Device, owner int64) { s.put(op{of: d, what: ends, owner: owner}) }

func (s *Sessions) put(q op) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(q)
}

// add queues an op. A store that is being closed carries out what came before alone. s.mu is held.
func (s *Sessions) add(q op) {
	s.waiting = append(s.waiting, q)
	if !s.running && !s.ended() {
		s.running = true
		s.workers.Go(s.work)
	}
}

func (s *Sessions) ended() bool {
	select {
	case <-s.closing:
		return true
	default:
		return false
	}
}

func encode(subs []Subscription) string {
	b, err := json.Marshal(subs)
	if err != nil {
		panic(err) // a list of texts always encodes
	}
	return string(b)
}

func decode(text string) (subs []Subscription, err error) {
	if err := json.Unmarshal([]byte(text), &subs); err != nil {
		return nil, fmt.Errorf("read the subscriptions of an MQTT session: %w", err)
	}
	return subs, nil
}

// Sweep ends the sessions whose time is over and returns their devices.
func (s *Sessions) Sweep() (over []Device, err error) {
	ctx, cancel := context.WithTimeout(s.ctx, patience)
	defer cancel()
	now := s.cfg.Now()
	for n := sliceOfSwept; n == sliceOfSwept; {
		list, err := s.sweep(ctx, now.UnixMilli())
		if err != nil {
			return over, err
		}
		n = len(list)
		over = append(over, list...)
	}
	s.mu.Lock()
	for _, d := range over {
		s.counts[d.App]--
		delete(s.known, s.hash(d))
	}
	stale := now.Sub(s.counted) >= countEvery
	s.mu.Unlock()
	if stale {
		err = s.count(ctx)
	}
	return over, err
}

// sweep ends some sessions. Nothing is written if there are none.
func (s *Sessions) sweep(ctx context.Context, now int64) (over []Device, err error) {
	const found = "SELECT app, recipient, device FROM session WHERE until <= $1 ORDER BY until LIMIT $2"
	read := func(ctx context.Context, tx sqltx.Tx) (err error) {
		over, err = sqltx.Collect(ctx, tx, deviceOf, found, now, sliceOfSwept)
		return err
	}
	if err := s.cfg.DB.Read(ctx, "find MQTT sessions whose time is over", read); err != nil || len(over) == 0 {
		return nil, err
	}
	err = s.cfg.DB.Change(ctx, "end MQTT sessions whose time is over", func(ctx context.Context, tx sqltx.Tx) (err error) {
		over, err = sqltx.Collect(ctx, tx, deviceOf, "DELETE FROM session WHERE until <= $1 AND (app, recipient, device) IN ("+found+") RETURNING app, recipient, device", now, sliceOfSwept)
		return err
	})
	if err != nil {
		return nil, err
	}
	return over, nil
}

// WentOn reports whether another connection has taken a session over and goes on with it.
func (s *Sessions) WentOn(ctx context.Context, d Device, owner int64) (elsewhere bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err = s.cfg.DB.Read(ctx, "read who has an MQTT session", func(ctx context.Context, tx sqltx.Tx) error {
		elsewhere = false
		return tx.Each(ctx, "SELECT 1 FROM session WHERE app = $1 AND recipient = $2 AND device = $3 AND owner <> $4 AND former > 0", []any{d.App, d.Recipient, d.Name, owner}, func(sqltx.Row) error {
			elsewhere = true
			return nil
		})
	})
	return elsewhere, err
}

func deviceOf(r sqltx.Row) (d Device, err error) {
	err = r.Scan(&d.App, &d.Recipient, &d.Name)
	return d, err
}

// Extend has the sessions of connected clients last.
func (s *Sessions) Extend() error {
	ctx, cancel := context.WithTimeout(s.ctx, patience)
	defer cancel()
	return s.cfg.DB.Change(ctx, "extend the sessions of MQTT clients", func(ctx context.Context, tx sqltx.Tx) error {
		_, err := tx.Exec(ctx, "UPDATE session SET until = CAST($1 AS bigint) + expiry WHERE node = $2 AND connected <> 0", s.cfg.Now().Add(Slack).UnixMilli(), s.cfg.Node)
		return err
	})
}

// EraseRecipient deletes the sessions of a recipient's devices and returns how many these were.
func (s *Sessions) EraseRecipient(ctx context.Context, app, recipient string) (n int, err error) {
	err = s.cfg.DB.Change(ctx, "erase the sessions of a recipient's MQTT devices", func(ctx context.Context, tx sqltx.Tx) (err error) {
		n, err = tx.Exec(ctx, "DELETE FROM session WHERE app = $1 AND recipient = $2", app, recipient)
		return err
	})
	return n, err
}

// EraseApp deletes the sessions of an app.
func (s *Sessions) EraseApp(ctx context.Context, app string) error {
	return s.cfg.DB.Change(ctx, "erase the sessions of an app's MQTT devices", func(ctx context.Context, tx sqltx.Tx) error {
		_, err := tx.Exec(ctx, "DELETE FROM session WHERE app = $1", app)
		return err
	})
}
