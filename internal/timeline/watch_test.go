package timeline_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"godwit.dev/godwit/internal/mailbox"
	"godwit.dev/godwit/internal/notification"
	"godwit.dev/godwit/internal/recipient"
	"godwit.dev/godwit/internal/timeline"
)

// changing is what is known of a copy that changes while somebody follows it.
type changing struct {
	mu    sync.Mutex
	now   known
	reads int
}

func (c *changing) Lookup(ctx context.Context, app, id, to string) ([]mailbox.Record, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reads++
	return c.now.Lookup(ctx, app, id, to)
}

func (c *changing) History(context.Context, string, string, notification.Status, int, int64) ([]mailbox.Record, int64, error) {
	return nil, 0, nil
}

func (c *changing) Get(ctx context.Context, app, name string) (*recipient.View, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now.Get(ctx, app, name)
}

func (c *changing) become(status notification.Status) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now.record.Status = status
	if status.Settled(0) {
		c.now.record.SettledAt = after(60)
	}
}

func (c *changing) read() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reads
}

func following(now func() time.Time) (*changing, *timeline.Watchers, *timeline.Service) {
	c := &changing{now: known{record: mailbox.Record{ID: "ride-1", To: "anna", Pos: 7, CreatedAt: start, Status: notification.Stored}}}
	w := timeline.NewWatchers(nil)
	return c, w, timeline.New(timeline.Config{Mailbox: c, Recipients: c, Watchers: w, Now: now})
}

// told is what a follower got.
type told struct {
	mu   sync.Mutex
	list []string
}

func (d *told) follower() timeline.Follower {
	return timeline.Follower{
		Tell: func(t *timeline.Timeline) error {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.list = append(d.list, t.Record.Status.String())
			return nil
		},
		Alive: func() error {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.list = append(d.list, "alive")
			return nil
		},
	}
}

func (d *told) got() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.Join(d.list, " ")
}

var annas = mailbox.Settled{App: "shop", Recipient: "anna"}

func TestAFollowerIsToldOfEachChangeUntilTheCopyHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, w, s := following(func() time.Time { return after(60) })
		var d told
		done := make(chan error, 1)
		go func() { done <- s.Follow(t.Context(), "shop", "ride-1", "anna", d.follower()) }()
		time.Sleep(1500 * time.Millisecond)
		c.become(notification.Delivered)
		w.Delivered([]mailbox.Mark{{App: "shop", Recipient: "anna"}})
		synctest.Wait()
		if got := d.got(); got != "stored delivered" {
			t.Errorf("told %q, want both at once", got)
		}
		time.Sleep(50 * time.Second)
		if got, reads := d.got(), c.read(); got != "stored delivered alive alive alive" || reads > 25 {
			t.Errorf("told %q by %d reads in 50 s in which nothing happened", got, reads)
		}
		before := c.read()
		for range 100 {
			w.Committed(&mailbox.Batch{Settled: []mailbox.Settled{annas}})
			time.Sleep(10 * time.Millisecond)
		}
		if n := c.read() - before; n > 2 {
			t.Errorf("read %d times in a second", n)
		}
		c.become(notification.Acked)
		w.Committed(&mailbox.Batch{Settled: []mailbox.Settled{annas}})
		if err := <-done; err != nil || !strings.HasSuffix(d.got(), " acked") {
			t.Errorf("ended with %v, told %q", err, d.got())
		}
	})
}

func TestWhatNobodySaysIsFoundAllTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, s := following(func() time.Time { return after(60) })
		var d told
		done := make(chan error, 1)
		go func() { done <- s.Follow(t.Context(), "shop", "ride-1", "anna", d.follower()) }()
		time.Sleep(time.Second)
		c.become(notification.Expired)
		if err := <-done; err != nil || d.got() != "stored expired" {
			t.Errorf("ended with %v, told %q", err, d.got())
		}
	})
}

func TestAFollowerLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, w, s := following(func() time.Time { return after(60) })
		ctx, cancel := context.WithCancel(t.Context())
		var d told
		done := make(chan error, 1)
		go func() { done <- s.Follow(ctx, "shop", "ride-1", "anna", d.follower()) }()
		synctest.Wait()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("ended with %v", err)
		}
		w.Committed(&mailbox.Batch{Settled: []mailbox.Settled{annas}}) // nobody is there to be told
	})
}

func TestFollowersAreBoundedAndNoAppTakesAllPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, s := following(func() time.Time { return after(60) })
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 2000)
		for range 2000 {
			go func() {
				var d told
				done <- s.Follow(ctx, "shop", "ride-1", "anna", d.follower())
			}()
		}
		synctest.Wait()
		var refused []error
		for len(done) > 0 {
			refused = append(refused, <-done)
		}
		if len(refused) != 1500 || slices.ContainsFunc(refused, func(err error) bool { return !errors.Is(err, timeline.ErrTooMany) }) {
			t.Errorf("%d of 2000 were refused", len(refused))
		}
		cancel()
		synctest.Wait()
	})
}
