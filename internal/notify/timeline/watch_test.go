package timeline_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/notify/recipient"
	"godwit.dev/godwit/internal/notify/timeline"
)

// changing is the data of a copy that changes while it is followed.
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

func (c *changing) History(ctx context.Context, app, to string, status notification.Status, limit int, cursor int64) ([]mailbox.Record, int64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reads++
	return c.now.History(ctx, app, to, status, limit, cursor)
}

// comes publishes a notification to anna; told says whether this node reports it.
func (c *changing) comes(w *timeline.Watchers, id string, told bool) {
	c.mu.Lock()
	pos := int64(10 + len(c.now.history))
	c.now.history = slices.Insert(c.now.history, 0, mailbox.Record{ID: id, To: "anna", Pos: pos, CreatedAt: start, Status: notification.Stored})
	c.mu.Unlock()
	if told {
		n := &notification.Notification{App: "shop", ID: id, Content: notification.Content{Title: "title of " + id}}
		w.Committed(&mailbox.Batch{Stored: []mailbox.Item{{Pos: pos, Recipient: "anna", Seq: 1, N: n}}})
	}
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

// told records a follower's calls.
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

func TestWatcherFindsUnannouncedChanges(t *testing.T) {
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
		w.Committed(&mailbox.Batch{Settled: []mailbox.Settled{annas}}) // there are no followers
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

func TestATapShowsWhatComesFromNowOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, w, s := following(func() time.Time { return after(60) })
		c.comes(w, "before", true)
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex
		var got []string
		done := make(chan error, 1)
		go func() {
			done <- s.Tap(ctx, "shop", "anna", func(list []timeline.Arrival, more bool) error {
				mu.Lock()
				defer mu.Unlock()
				for _, a := range list {
					title := "?"
					if a.Content != nil {
						title = a.Content.Title
					}
					got = append(got, a.Record.ID+": "+title)
				}
				if more {
					got = append(got, "more")
				}
				return nil
			}, func() error { return nil })
		}()
		synctest.Wait()
		c.comes(w, "one", true)
		c.comes(w, "two", true)
		time.Sleep(1100 * time.Millisecond)
		synctest.Wait()
		c.comes(w, "elsewhere", false)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		mu.Lock()
		if want := []string{"one: title of one", "two: title of two", "elsewhere: ?"}; !slices.Equal(got, want) {
			t.Errorf("shown %q, want %q", got, want)
		}
		mu.Unlock()
		c.comes(w, "first", true)
		synctest.Wait() // the first change is passed on at once; all changes in the second after it are passed on together
		mu.Lock()
		got = nil
		mu.Unlock()
		for i := range 70 {
			c.comes(w, fmt.Sprint("flood", i), true)
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		mu.Lock()
		if n := len(got); n != 51 || got[50] != "more" || !strings.HasPrefix(got[49], "flood69") {
			t.Errorf("%d lines of a flood, the last %q", n, got[max(0, n-2):])
		}
		mu.Unlock()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("ended with %v", err)
		}
	})
}
