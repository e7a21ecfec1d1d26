package hook_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"godwit.dev/godwit/internal/feeds/event"
	"godwit.dev/godwit/internal/feeds/hook"
	"godwit.dev/godwit/internal/sending/push"
)

// receiver takes the posts of a tape's hooks, each after a while, and knows which ran at once.
type receiver struct {
	mu     sync.Mutex
	takes  time.Duration
	now    map[string]int // recipients whose events are being posted
	most   int            // posts at once
	twice  int            // posts that began while another of the same recipient was under way
	took   []string       // ids of accepted events, in the order of acceptance
	refuse func(id, to string) error
}

func (r *receiver) Check(string, []string) error { return nil }
func (r *receiver) NewSecret() string            { return "made" }

func (r *receiver) Post(ctx context.Context, _ []string, _, id string, body []byte) error {
	_, to, _ := strings.Cut(string(body), `"to":"`)
	to, _, _ = strings.Cut(to, `"`)
	r.mu.Lock()
	if r.now[to] > 0 {
		r.twice++
	}
	r.now[to]++
	r.most = max(r.most, len(r.now))
	takes := r.takes
	r.mu.Unlock()
	select {
	case <-time.After(takes):
	case <-ctx.Done():
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.now[to]--; r.now[to] == 0 {
		delete(r.now, to)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if r.refuse != nil {
		if err := r.refuse(id, to); err != nil {
			return err
		}
	}
	r.took = append(r.took, id)
	return nil
}

// behave changes the receiver.
func (r *receiver) behave(change func(r *receiver)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(r)
}

// accepted returns what the receiver has accepted since the last call.
func (r *receiver) accepted() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	took := r.took
	r.took = nil
	return took
}

// emitTo adds an event for each recipient.
func (t *tape) emitTo(to ...string) {
	for _, name := range to {
		t.Emit([]event.Event{{App: "shop", Type: event.Acked, At: time.Now(), Note: "n", To: name}})
	}
}

func names(n int) (list []string) {
	for i := range n {
		list = append(list, fmt.Sprint("r", i))
	}
	return list
}

func TestHookPostsOfManyRecipientsAtOnceAndOfOneInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tape, r := newTape(), &receiver{takes: 5 * time.Millisecond, now: map[string]int{}}
		s, stop := tape.runTo(t, r)
		defer stop()
		set(t, s, "a", hook.Change{})
		const rounds, recipients = 50, 100
		for range rounds {
			for _, name := range names(recipients) {
				tape.emitTo(name, name)
			}
		}
		begun := time.Now()
		for range 5 * time.Second / time.Millisecond {
			if i, _ := s.Get(t.Context(), "shop", "a"); i.Delivered == 2*rounds*recipients {
				break
			}
			time.Sleep(time.Millisecond)
		}
		took := r.accepted()
		if len(took) != 2*rounds*recipients || r.most != 32 || r.twice > 0 {
			t.Fatalf("%d events came in %s, %d at once, %d beside one of the same recipient", len(took), time.Since(begun), r.most, r.twice)
		}
		last := map[int]int{}
		for _, id := range took {
			var n int
			if _, err := fmt.Sscanf(id, "shop.a.%d", &n); err != nil {
				t.Fatal(err)
			}
			if of := (n - 1) / 2 % recipients; n <= last[of] {
				t.Errorf("%s came after %d of the same recipient", id, last[of])
			} else {
				last[of] = n
			}
		}
	})
}

func TestSlowReceiverGetsOneEventAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tape, r := newTape(), &receiver{takes: 3 * time.Second, now: map[string]int{}}
		s, stop := tape.runTo(t, r)
		defer stop()
		set(t, s, "a", hook.Change{})
		tape.emitTo(names(50)...)
		time.Sleep(time.Minute)
		if took := r.accepted(); len(took) != 19 && len(took) != 20 || r.most != 1 {
			t.Errorf("%d came in a minute, %d at once", len(took), r.most)
		}
		r.behave(func(r *receiver) { r.takes = time.Millisecond })
		time.Sleep(10 * time.Second)
		if took := r.accepted(); len(took) < 30 || r.most < 10 {
			t.Errorf("%d came when the receiver was quick again, %d at once", len(took), r.most)
		}
	})
}

func TestFailingEventHoldsTheOthersBackAndWhatCameIsNotRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tape, r := newTape(), &receiver{takes: time.Millisecond, now: map[string]int{}}
		s, stop := tape.runTo(t, r)
		defer func() { stop() }()
		set(t, s, "a", hook.Change{})
		tape.emitTo(names(100)...) // the hook has become quick
		time.Sleep(time.Second)
		if took := r.accepted(); len(took) != 100 {
			t.Fatalf("%d came", len(took))
		}
		r.behave(func(r *receiver) {
			r.refuse = func(_, to string) error {
				if to == "r3" {
					return &push.RetryError{Reason: "down"}
				}
				return nil
			}
		})
		tape.emitTo(names(100)...)
		time.Sleep(4 * time.Second) // the first attempts again come after five
		early := r.accepted()
		if len(early) == 0 || len(early) > 2*32 || slices.Contains(early, "shop.a.104") {
			t.Fatalf("beside the failing event came %v", early)
		}
		if i, _ := s.Get(t.Context(), "shop", "a"); i.State != hook.Failing || i.Attempts != 1 || i.Cursor != 103 || i.Delivered != uint64(100+len(early)) {
			t.Fatalf("%+v", i)
		}
		time.Sleep(10 * time.Second)
		if i, _ := s.Get(t.Context(), "shop", "a"); i.Attempts != 2 || len(r.accepted()) > 0 {
			t.Fatalf("after the second attempt: %+v", i)
		}
		stop()

		r.behave(func(r *receiver) { r.refuse = nil })
		s, stop = tape.runTo(t, r) // as after a restart
		time.Sleep(time.Hour)
		came := map[string]bool{}
		for _, id := range append(early, r.accepted()...) {
			if came[id] {
				t.Errorf("%s came twice", id)
			}
			came[id] = true
		}
		if i, _ := s.Get(t.Context(), "shop", "a"); len(came) != 100 || i.Delivered != 200 || i.Cursor != 200 || i.State != hook.Active || len(i.Posted) > 0 {
			t.Errorf("%d events came: %v, %+v", len(came), slices.Sorted(maps.Keys(came)), i)
		}
	})
}

func TestAttemptsUnderWayWhenAHookBeginsToFailCountAsOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tape, r := newTape(), &receiver{takes: time.Millisecond, now: map[string]int{}}
		s, stop := tape.runTo(t, r)
		defer stop()
		set(t, s, "a", hook.Change{})
		tape.emitTo(names(100)...)
		time.Sleep(time.Second)
		r.behave(func(r *receiver) { r.refuse = func(string, string) error { return &push.RetryError{Reason: "down"} } })
		tape.emitTo(names(100)...)
		time.Sleep(time.Second)
		if i, _ := s.Get(t.Context(), "shop", "a"); i.Attempts != 1 || i.State != hook.Failing || i.Cursor != 100 {
			t.Errorf("%+v", i)
		}
		r.behave(func(r *receiver) { r.refuse = func(string, string) error { return &push.GoneError{Reason: "410"} } })
		time.Sleep(10 * time.Second)
		if i, _ := s.Get(t.Context(), "shop", "a"); i.State != hook.Paused || i.LastError != "410" {
			t.Errorf("%+v", i)
		}
	})
}
