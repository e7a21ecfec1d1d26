package hook_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/cluster/lease/leasetest"
	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/feeds/event"
	"godwit.dev/godwit/internal/feeds/hook"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/store/sqlite/appdb"
	"godwit.dev/godwit/internal/store/sqlite/eventdb"
	"godwit.dev/godwit/internal/store/sqlite/sqlitetest"
)

// cluster is several servers on one store and one log.
type cluster struct {
	*testing.T
	leases  *leasetest.Leases
	events  *eventdb.Log
	servers []*hook.Service

	mu     sync.Mutex
	took   []string // in order, by which server
	from   []int
	answer func(server int, id string) error
	news   sync.Cond
}

func newCluster(t *testing.T, n int) *cluster {
	t.Helper()
	c := &cluster{T: t, leases: leasetest.New()}
	c.news.L = &c.mu
	path, log := sqlitetest.AppsFile(t), slog.New(slog.DiscardHandler)
	c.events = sqlitetest.Events(t)
	for i := range n {
		apps, err := appdb.Open(t.Context(), path, log)
		c.ok(err)
		t.Cleanup(func() { _ = apps.Close() })
		if i == 0 {
			c.ok(apps.CreateApp(t.Context(), access.App{Name: "shop"}))
		}
		s, err := hook.New(t.Context(), hook.Config{
			Store: &apps.Hooks, Progress: c.events, Events: c.events, Poster: poster{c, i}, Own: c.leases.Server(i), Log: log,
		})
		c.ok(err)
		c.servers = append(c.servers, s)
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() { defer close(done); _ = s.Run(ctx) }()
		t.Cleanup(func() { cancel(); <-done })
	}
	return c
}

// poster is the receiver as one server of the cluster reaches it.
type poster struct {
	*cluster
	server int
}

func (poster) Check(string, []string) error { return nil }
func (poster) NewSecret() string            { return "made" }

func (p poster) Post(_ context.Context, _ []string, _, id string, _ []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.took, p.from = append(p.took, id), append(p.from, p.server)
	p.news.Broadcast()
	if p.answer != nil {
		return p.answer(p.server, id)
	}
	return nil
}

func (c *cluster) ok(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

func (c *cluster) emit(n int) {
	for range n {
		c.events.Emit([]event.Event{{App: "shop", Type: event.Acked, At: time.Now(), Note: "n", To: "ann"}})
	}
}

// behave changes how the receiver answers.
func (c *cluster) behave(answer func(server int, id string) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answer = answer
}

// until waits until ok accepts the events that the receiver got.
func (c *cluster) until(what string, ok func(took []string) bool) []string {
	c.Helper()
	late := false
	timer := time.AfterFunc(2*time.Minute, func() {
		c.mu.Lock()
		late = true
		c.mu.Unlock()
		c.news.Broadcast()
	})
	defer timer.Stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	for !ok(c.took) {
		if late {
			c.Fatalf("not %s: %v", what, c.took)
		}
		c.news.Wait()
	}
	return slices.Clone(c.took)
}

func atLeast(n int) func([]string) bool { return func(took []string) bool { return len(took) >= n } }

// get returns the hook as a server shows it, once ok accepts it.
func (c *cluster) get(server int, what string, ok func(hook.Info) bool) hook.Info {
	c.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
		i, err := c.servers[server].Get(c.Context(), "shop", "a")
		c.ok(err)
		if ok(i) {
			return i
		}
		if time.Now().After(deadline) {
			c.Fatalf("server %d shows it not %s: %+v", server, what, i)
		}
	}
}

func (c *cluster) set(server int, change hook.Change) hook.Info {
	c.Helper()
	change.URL = "https://a.example"
	i, _, _, err := c.servers[server].Set(c.Context(), "shop", "a", change)
	c.ok(err)
	return i
}

func idOf(n uint64) string { return fmt.Sprintf("shop.a.%d", n) }

// all lists the ids of all events after since.
func (c *cluster) all(since uint64) (ids []string) {
	c.Helper()
	evs, _, err := c.events.Read(c.Context(), "shop", since, 10_000, false)
	c.ok(err)
	for _, e := range evs {
		ids = append(ids, idOf(e.ID))
	}
	return ids
}

func TestOwnerPostsEventsInOrderAndLosesNoneAtHandover(t *testing.T) {
	const turns = 5
	c := newCluster(t, 3)
	begun := c.set(1, hook.Change{}).Cursor // the change goes to a server that does not own the app
	var emitting sync.WaitGroup
	all, enough := 0, make(chan struct{})
	emitting.Go(func() {
		for ; ; all += 10 {
			select {
			case <-enough:
				return
			case <-time.After(time.Millisecond): // emits events while the owner changes
				c.emit(10)
			}
		}
	})
	for i := range turns {
		c.leases.Give("shop", i%3)
		before := len(c.until("posted by its owner", func([]string) bool { return len(c.from) > 0 && c.from[len(c.from)-1] == i%3 }))
		c.until("posted on", atLeast(before+100))
	}
	close(enough)
	emitting.Wait()
	c.get(2, "at the end", func(i hook.Info) bool { return i.Cursor >= i.Newest && i.Delivered >= uint64(all) }) // not negative
	took := c.until("posted", atLeast(all))
	if once, want := slices.Compact(slices.Clone(took)), c.all(begun); !slices.Equal(once, want) {
		t.Errorf("%d events came, want each of %d at least once and in order", len(once), len(want))
	}
	if len(took) > all {
		t.Errorf("%d came twice, and each owner had time to save how far it came", len(took)-all)
	}
	if by := slices.Compact(c.from); !slices.Equal(by, []int{0, 1, 2, 0, 1}) {
		t.Errorf("owners took turns: %v", by)
	}
}

// TestSuspendedServerPostsNothingWhenItWakes: the server's lease has ended meanwhile, and the server has not noticed yet.
func TestSuspendedServerPostsNothingWhenItWakes(t *testing.T) {
	c := newCluster(t, 2)
	begun := c.set(0, hook.Change{}).Cursor
	c.behave(func(int, string) error { c.leases.Over.Store(true); return nil })
	c.emit(20)
	c.until("posted once", atLeast(1))
	c.leases.Give("shop", 1)
	c.get(1, "saved", func(i hook.Info) bool { return i.Delivered == 1 })
	if took := c.until("posted", atLeast(1)); len(took) != 1 {
		t.Errorf("%d were posted after the time of the owner had passed", len(took)-1)
	}
	c.behave(nil)
	c.leases.Over.Store(false)
	c.get(0, "posted by the other", func(i hook.Info) bool { return i.Delivered == 20 })
	if took := c.until("posted", atLeast(20)); !slices.Equal(took, c.all(begun)) {
		t.Errorf("posted %v", took)
	}
}

func TestRequestAtAnotherServerReachesOwnerOnce(t *testing.T) {
	c := newCluster(t, 2)
	c.set(1, hook.Change{})
	c.emit(5)
	first := c.until("posted", atLeast(5))
	shown := c.get(1, "done", func(i hook.Info) bool { return i.Delivered == 5 })
	var since uint64
	if _, err := fmt.Sscanf(first[1], "shop.a.%d", &since); err != nil {
		t.Fatal(err)
	}
	if i, err := c.servers[1].Replay(t.Context(), "shop", "a", since); err != nil || i.Cursor != since || !i.UpdatedAt.Equal(shown.UpdatedAt) {
		t.Errorf("replay answers %+v, %v", i, err)
	}
	again := c.until("posted again", atLeast(8))
	if !slices.Equal(again[5:], first[2:]) {
		t.Errorf("replayed %v, want %v", again[5:], first[2:])
	}
	c.get(1, "done", func(i hook.Info) bool { return i.Delivered == 8 })
	for i := range 4 { // each further owner sees the same change, which was applied already
		c.leases.Give("shop", (i+1)%2)
		c.emit(1)
		c.until("gone on", atLeast(9+i))
	}
	if took := c.until("gone on", atLeast(12)); len(took) != 12 {
		t.Errorf("replayed again: %v", took)
	}

	c.behave(func(_ int, _ string) error { return &push.GoneError{Reason: "410"} })
	c.emit(1)
	for server := range 2 {
		if i := c.get(server, "paused", func(i hook.Info) bool { return i.State == hook.Paused }); i.Delivered != 12 || i.LastError != "410" {
			t.Errorf("server %d shows %+v", server, i)
		}
	}
	c.behave(nil)
	if i := c.set(1, hook.Change{}); i.State != hook.Active || i.Delivered != 12 {
		t.Errorf("set again on the other server: %+v", i)
	}
	c.get(1, "going on", func(i hook.Info) bool { return i.Delivered == 13 })
}

func TestAHookThatAnotherServerDeletesEndsAndItsNameBeginsAnew(t *testing.T) {
	c := newCluster(t, 2)
	c.set(0, hook.Change{})
	c.emit(3)
	c.get(1, "done", func(i hook.Info) bool { return i.Delivered == 3 })
	c.ok(c.servers[1].Delete(t.Context(), "shop", "a", setting.Match{}))
	if i := c.set(1, hook.Change{}); i.Delivered != 0 || i.Cursor != i.Newest { // before the owner has noticed the change
		t.Errorf("made anew: %+v", i)
	}
	c.emit(2) // the owner may also post these events for the old hook, until it learns of the change
	c.get(1, "posted", func(i hook.Info) bool { return i.Delivered == 2 && i.Cursor == i.Newest })
	if took, all := c.until("posted", atLeast(5)), c.all(0); !slices.Equal(took[len(took)-2:], all[3:]) {
		t.Errorf("the new one got %v of %v", took[len(took)-2:], all)
	}
	c.ok(c.servers[1].Delete(t.Context(), "shop", "a", setting.Match{}))
	for deadline := time.Now().Add(2 * time.Minute); c.leases.Held() > 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("an app without hooks is still owned")
		}
	}
	if left, err := c.events.HookProgress(t.Context(), ""); err != nil || len(left) != 0 {
		t.Errorf("progress of %+v is left, %v", left, err)
	}
}
