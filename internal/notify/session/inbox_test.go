package session

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/notify/inbox"
)

// boxes are the inboxes that nodes share.
type boxes struct {
	mu     sync.Mutex
	unused bool
	of     map[string]inbox.Counts
	read   func() // called after counts for a welcome were read; may be nil
	reads  int
}

func (b *boxes) InboxesUsed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.unused
}

func (b *boxes) set(to string, revision uint64, unseen int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.of[to] = inbox.Counts{Count: inbox.Count{Unseen: unseen, Unread: unseen}, Revision: revision}
}

func (b *boxes) InboxCounts(_ context.Context, _, to string) (inbox.Counts, error) {
	b.mu.Lock()
	c := b.of[to]
	b.mu.Unlock()
	if b.read != nil {
		b.read()
	}
	return c, nil
}

func (b *boxes) CountInboxes(_ context.Context, of []inbox.Owner) (list []inbox.Counts, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reads += len(of)
	for _, o := range of {
		list = append(list, b.of[o.Recipient])
	}
	return list, nil
}

// inboxWorld is a hub of a node among several.
func inboxWorld(t *testing.T, f func(w *world, b *boxes)) {
	inWorld(t, func(w *world) {
		b := &boxes{of: make(map[string]inbox.Counts)}
		w.hub.cfg.Inboxes, w.hub.several, w.hub.recounts.used = b, true, true
		f(w, b)
	})
}

// unseen returns the numbers of unseen items in the welcomes and inbox frames so far, and clears them; -1: a welcome without.
func (w *wire) unseen() (list []int) {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range w.frames {
		for kind, body := range f {
			var in struct {
				Unseen int
				Inbox  *struct{ Unseen int }
			}
			_ = json.Unmarshal(body, &in)
			switch {
			case kind == "inbox":
				list = append(list, in.Unseen)
			case kind == "welcome" && in.Inbox != nil:
				list = append(list, in.Inbox.Unseen)
			case kind == "welcome":
				list = append(list, -1)
			}
		}
	}
	w.frames = nil
	return list
}

func (w *world) wantUnseen(c *wire, want ...int) {
	w.t.Helper()
	if got := c.unseen(); !slices.Equal(got, want) {
		w.t.Errorf("told %v unseen, want %v", got, want)
	}
}

func changed(to string, revision uint64, unseen int) []inbox.Change {
	return []inbox.Change{{App: "demo", Recipient: to, Count: inbox.Count{Unseen: unseen, Unread: unseen}, Revision: revision, Changed: []string{"n"}}}
}

func TestChangeOfAnotherNodeDuringAHelloIsTold(t *testing.T) {
	inboxWorld(t, func(w *world, b *boxes) {
		b.set("anna", 7, 1)
		b.read = func() { b.set("anna", 8, 2) } // at a node that does not know of the session yet
		c := w.connect(frame.Hello{Recipient: "anna", Heartbeat: time.Hour})
		w.wantUnseen(c, 1)
		time.Sleep(rereadFirst + time.Second)
		w.wantUnseen(c, 2)
		b.set("anna", 9, 3) // a slow node
		time.Sleep(rereadNext)
		w.wantUnseen(c, 3)
		reads := b.reads
		time.Sleep(10 * time.Minute)
		w.wantUnseen(c)
		if b.reads != reads || w.hub.recounts.of.Len() > 0 {
			t.Errorf("an idle session's counts were read %d times more, %d sessions wait", b.reads-reads, w.hub.recounts.of.Len())
		}
	})
}

func TestUnchangedCountsAreToldOnce(t *testing.T) {
	inboxWorld(t, func(w *world, b *boxes) {
		b.set("anna", 7, 1)
		c := w.connect(frame.Hello{Recipient: "anna", Heartbeat: time.Hour})
		bert := w.connect(frame.Hello{Recipient: "bert", Heartbeat: time.Hour})
		time.Sleep(time.Minute)
		w.wantUnseen(c, 1)
		w.wantUnseen(bert, -1)
	})
}

func TestOlderChangeDoesNotFollowANewerOne(t *testing.T) {
	inboxWorld(t, func(w *world, b *boxes) {
		b.set("anna", 7, 1)
		c := w.connect(frame.Hello{Recipient: "anna", Heartbeat: time.Hour})
		w.hub.Inboxes(changed("anna", 9, 0))
		w.hub.Inboxes(changed("anna", 8, 2))
		w.wantUnseen(c, 1, 0)
		w.hub.Inboxes(changed("anna", 10, 1))
		w.wantUnseen(c, 1)
	})
}

func TestNotificationAndCountsOfItsInboxLeaveTogether(t *testing.T) {
	inboxWorld(t, func(w *world, b *boxes) {
		b.set("anna", 7, 1)
		c := w.connect(frame.Hello{Recipient: "anna", Heartbeat: time.Hour})
		c.left()
		change := changed("anna", 9, 2)
		release := w.hub.Hold(slices.Concat(change, change, changed("nobody", 1, 1)))
		w.hub.Inboxes(change)
		w.hub.Inboxes(changed("anna", 10, 3))
		if sent := c.left(); len(sent) > 0 {
			t.Errorf("%v frames were sent too early", sent)
		}
		release()
		if sent := c.left(); !slices.Equal(sent, []int{2}) {
			t.Errorf("the frames were sent in pieces of %v", sent)
		}
		w.wantUnseen(c, 1, 2, 3)
	})
}

func TestCountsAreComparedAfterALoss(t *testing.T) {
	inboxWorld(t, func(w *world, b *boxes) {
		b.set("anna", 7, 1)
		c := w.connect(frame.Hello{Recipient: "anna", Heartbeat: time.Hour})
		time.Sleep(time.Minute)
		w.wantUnseen(c, 1)
		b.set("anna", 8, 4)
		w.hub.RereadAll()
		w.wantUnseen(c, 4)
	})
}

func TestFirstItemOfAnotherNodeIsFound(t *testing.T) {
	inboxWorld(t, func(w *world, b *boxes) {
		b.unused, w.hub.recounts.used = true, false
		c := w.connect(frame.Hello{Recipient: "anna", Heartbeat: time.Hour})
		b.set("anna", 7, 1)
		time.Sleep(time.Minute)
		w.wantUnseen(c, -1)
		b.mu.Lock()
		b.unused = false
		b.mu.Unlock()
		time.Sleep(2 * time.Minute)
		w.wantUnseen(c, 1)
	})
}

func TestSessionThatEndsIsNotCounted(t *testing.T) {
	inboxWorld(t, func(w *world, b *boxes) {
		b.set("anna", 7, 1)
		c := w.connect(frame.Hello{Recipient: "anna", Heartbeat: time.Hour})
		w.wantUnseen(c, 1)
		c.s.Closed()
		if n := w.hub.recounts.of.Len(); n > 0 {
			t.Errorf("%d sessions wait after their end", n)
		}
	})
}
