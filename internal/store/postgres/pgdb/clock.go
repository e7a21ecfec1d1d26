package pgdb

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// All nodes use the database's time, so that a copy expires at the same moment on every node.
const (
	sampleEvery = 10 * time.Second
	sampleFor   = 2 * time.Second // a sample that takes longer is discarded
	samples     = 5               // the quickest one counts: the middle of its round trip has the least error
	// slewRate bounds how much the clock runs too fast or too slow while it corrects an error: even a bad quartz drifts at only an eighth
	// of this rate.
	slewRate = 0.0004
	// A deviation of more than leap beyond a sample's uncertainty is no drift of quartzes: the database's clock was set, or another machine
	// has taken over. The clock follows a leap forward at once. After a leap back it runs slower by a tenth (holdRate), since it never goes
	// backwards.
	leap     = 5 * time.Millisecond
	holdRate = 0.1
)

// clock is the time of the database: sampled, and advanced in between by the monotonic clock.
type clock struct {
	tick func() time.Time // this process's monotonic clock

	mu   sync.Mutex
	at   time.Time     // time of the last correction, by this process's clock
	then time.Time     // the time at that moment
	off  time.Duration // the error at the last correction, which is removed gradually

	stop context.CancelFunc
	done chan struct{}
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.read(c.tick())
}

// read returns the database's time at a moment of this process.
func (c *clock) read(moment time.Time) time.Time {
	passed := moment.Sub(c.at)
	rate := slewRate
	if c.off < -leap {
		rate = holdRate
	}
	most := time.Duration(float64(passed) * rate)
	return c.then.Add(passed + min(max(c.off, -most), most))
}

// set corrects the clock by a sample: at a recent moment of this process, the database's time was truth, give or take give. It returns by
// how much the clock was certainly off.
func (c *clock) set(moment, truth time.Time, give time.Duration) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.tick() // not moment: times that were returned since then must not be revoked
	truth = truth.Add(at.Sub(moment))
	if c.at.IsZero() {
		c.at, c.then = at, truth
		return 0
	}
	now := c.read(at)
	off := truth.Sub(now)
	off -= min(max(off, -give), give)
	c.at, c.then, c.off = at, now, off
	if off > leap {
		c.then, c.off = now.Add(off), 0
	}
	return off
}

func (c *clock) close() {
	c.stop()
	<-c.done
}

// startClock reads the database's time, at once and then regularly until the store is closed.
func (db *DB) startClock(ctx context.Context) error {
	if db.now != nil {
		return nil
	}
	c := &clock{tick: time.Now, done: make(chan struct{})}
	if err := db.sample(ctx, c); err != nil {
		return fmt.Errorf("ask PostgreSQL for the time: %w", err)
	}
	db.clock, db.now = c, c.now
	running, stop := context.WithCancel(context.Background())
	c.stop = stop
	go func() {
		defer close(c.done)
		db.keepTime(running, c)
	}()
	return nil
}

func (db *DB) keepTime(ctx context.Context, c *clock) {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := db.sample(ctx, c); err != nil && ctx.Err() == nil {
				db.log.DebugContext(ctx, "the database did not tell the time", "error", err)
			}
		}
	}
}

// sample queries the time a few times and takes the quickest answer.
func (db *DB) sample(ctx context.Context, c *clock) error {
	ctx, cancel := Within(ctx, sampleFor)
	defer cancel()
	conn, err := db.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	var moment, truth time.Time
	quickest := time.Duration(1<<63 - 1)
	for range samples {
		var micros int64
		asked := time.Now()
		if err := conn.QueryRow(ctx, "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint").Scan(&micros); err != nil {
			return err
		}
		if took := time.Since(asked); took < quickest {
			quickest, moment, truth = took, asked.Add(took/2), time.UnixMicro(micros)
		}
	}
	if off := c.set(moment, truth, quickest/2); off.Abs() > leap {
		db.log.WarnContext(ctx, "the database's clock was set", slog.Duration("by", off))
	}
	return nil
}
