package timeline

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"godwit.dev/godwit/internal/engine/fair"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
)

// Limits of following timelines.
const (
	maxWatchers = 1000             // most followers on one node, half of them of one app; each reads a timeline at intervals
	readEvery   = time.Second      // shortest time between two reads of a follower's copy
	lookAgain   = 3 * time.Second  // longest time between two reads: other nodes and providers do not report their events here
	heartbeat   = 15 * time.Second // proxies close connections that are silent for a minute or less
)

// ErrTooMany says that the limit of followers is reached.
var ErrTooMany = errors.New("too many follow timelines of this app")

// Watchers receives the events of recipients that have followers. For all other recipients an event costs one addition.
type Watchers struct {
	next   mailbox.Tracer // also receives all events; nil: there is none
	places *fair.Shares
	n      atomic.Int32
	mu     sync.Mutex
	of     map[mailbox.Address][]*watcher
}

// watcher is one follower of a recipient.
type watcher struct {
	changed  chan struct{}
	contents map[int64]notification.Content // contents of recent arrivals, by position; nil: not requested. Guarded by Watchers.mu
}

// NewWatchers makes Watchers without followers. next also receives all events; nil: there is no other tracer.
func NewWatchers(next mailbox.Tracer) *Watchers {
	return &Watchers{next: next, places: fair.NewShares(maxWatchers), of: make(map[mailbox.Address][]*watcher)}
}

var _ mailbox.Tracer = (*Watchers)(nil)

// Committed implements mailbox.Tracer.
func (w *Watchers) Committed(b *mailbox.Batch) {
	if w.next != nil {
		w.next.Committed(b)
	}
	if w.n.Load() == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, items := range [][]mailbox.Item{b.Stored, b.Due} {
		for i := range items {
			it := &items[i]
			who := mailbox.Address{App: it.N.App, Recipient: it.Recipient}
			w.arrived(who, it)
			w.wake(who)
		}
	}
	for i := range b.Settled {
		w.wake(mailbox.Address{App: b.Settled[i].App, Recipient: b.Settled[i].Recipient})
	}
}

// Delivered implements mailbox.Tracer.
func (w *Watchers) Delivered(marks []mailbox.Mark) {
	if w.next != nil {
		w.next.Delivered(marks)
	}
	if w.n.Load() == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range marks {
		w.wake(mailbox.Address{App: marks[i].App, Recipient: marks[i].Recipient})
	}
}

func (w *Watchers) wake(who mailbox.Address) {
	for _, one := range w.of[who] {
		select {
		case one.changed <- struct{}{}:
		default:
		}
	}
}

// arrived keeps the content of a new notification for the followers that requested contents.
func (w *Watchers) arrived(who mailbox.Address, it *mailbox.Item) {
	for _, one := range w.of[who] {
		if one.contents != nil && len(one.contents) < tapPage {
			one.contents[it.Pos] = it.N.Content
		}
	}
}

// taken returns the contents that arrived since the last call.
func (w *Watchers) taken(one *watcher) map[int64]notification.Content {
	w.mu.Lock()
	defer w.mu.Unlock()
	came := one.contents
	one.contents = make(map[int64]notification.Content)
	return came
}

// watch adds a watcher for a recipient's events until end is called. With contents it also receives the notifications' contents.
func (w *Watchers) watch(who mailbox.Address, contents bool) (one *watcher, end func(), err error) {
	if !w.places.Try(who.App, 1) {
		return nil, nil, ErrTooMany
	}
	one = &watcher{changed: make(chan struct{}, 1)}
	if contents {
		one.contents = make(map[int64]notification.Content)
	}
	w.mu.Lock()
	w.of[who] = append(w.of[who], one)
	w.n.Add(1)
	w.mu.Unlock()
	return one, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		var left []*watcher
		for _, other := range w.of[who] {
			if other != one {
				left = append(left, other)
			}
		}
		if w.of[who] = left; left == nil {
			delete(w.of, who)
		}
		w.n.Add(-1)
		w.places.Give(who.App, 1)
	}, nil
}

// Follower receives the timeline of a copy.
type Follower struct {
	// Tell receives the timeline, at first and after each change.
	Tell func(*Timeline) error
	// Alive is called after Tell was not called for a while.
	Alive func() error
}

// Follow passes a copy's timeline to a follower until the copy has ended with all its sends, ctx ends, or the follower
// fails.
func (s *Service) Follow(ctx context.Context, app, id, to string, f Follower) error {
	t, err := s.Of(ctx, app, id, to)
	if err != nil {
		return err
	}
	one, end, err := s.Watchers.watch(mailbox.Address{App: app, Recipient: to}, false)
	if err != nil {
		return err
	}
	defer end()
	if err := f.Tell(t); err != nil {
		return err
	}
	spoken := time.Now()
	for !t.over() {
		if !pause(ctx, one.changed) {
			return context.Cause(ctx)
		}
		now, err := s.Of(ctx, app, id, to)
		switch {
		case err != nil:
			return err
		case !t.same(now):
			t, err, spoken = now, f.Tell(now), time.Now()
		case time.Since(spoken) >= heartbeat:
			err, spoken = f.Alive(), time.Now()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// pause waits until the timeline may have changed. False: ctx ended.
func pause(ctx context.Context, changed <-chan struct{}) bool {
	least, most := time.NewTimer(readEvery), time.NewTimer(lookAgain)
	defer least.Stop()
	defer most.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-least.C:
	}
	select {
	case <-ctx.Done():
		return false
	case <-changed:
	case <-most.C:
	}
	return true
}

// over reports whether no further event can follow: the copy has ended, and each of its messages has an outcome.
func (t *Timeline) over() bool {
	if !t.Record.Status.Settled(t.Record.Ack) {
		return false
	}
	for i := range t.Steps {
		if s := t.Steps[i].Status; s == "sending" || s == "waiting" || s == "held" {
			return t.Record.Status == notification.Expired // no more of its sends will start
		}
	}
	return true
}

// same reports whether two timelines are equal except for the age of events.
func (t *Timeline) same(other *Timeline) bool {
	return without(t.Why.String()) == without(other.Why.String()) && reflect.DeepEqual(t.Entries, other.Entries) && t.Record.Status == other.Record.Status
}

// without leaves numbers out.
func without(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, s)
}
