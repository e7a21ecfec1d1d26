package storetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/testkit/thorough"
)

// The random work of one run. Each run takes another seed, so that many short runs see as much as a long one. A long one has longer
// histories, and reading them takes most of its time.
const (
	modelSteps    = 200
	modelStepsAll = 1500 // in a thorough run
)

// testModel makes the same random operations on the store and on the model. GODWIT_SEED repeats a run.
func testModel(t *testing.T, open OpenFunc, without []Ability) {
	if slices.Contains(without, Dedup) || slices.Contains(without, Collapse) || slices.Contains(without, Status) {
		t.Skip("the model needs deduplication, collapsing and status")
	}
	seed := uint64(time.Now().UnixNano())
	if s, err := strconv.ParseUint(os.Getenv("GODWIT_SEED"), 10, 64); err == nil {
		seed = s
	}
	t.Logf("repeat with GODWIT_SEED=%d", seed)
	w := &walk{
		env: newEnv(t, open, Options{MaxPending: 12}), rnd: rand.New(rand.NewPCG(seed, 0)),
		m: &model{seqs: make(map[string]uint64), max: 12},
	}
	for i := range thorough.Rounds(modelSteps, modelStepsAll) {
		w.step()
		if i%10 == 0 {
			w.compare(w.s)
		}
		if t.Failed() {
			t.Fatalf("step %d of seed %d", i, seed)
		}
	}
}

// walk is one run of random operations.
type walk struct {
	*env
	rnd *rand.Rand
	m   *model
}

func (w *walk) recipient() string { return fmt.Sprint("r", w.rnd.IntN(8)) }

func (w *walk) id() string { return fmt.Sprint("n", w.rnd.IntN(60)) }

func (w *walk) step() {
	now := w.clock.Now()
	switch x := w.rnd.IntN(100); {
	case x < 50:
		w.publishOne()
	case x < 75:
		w.settleOne()
	case x < 85:
		w.clock.Advance(time.Duration(w.rnd.IntN(20_000)) * time.Millisecond)
	case x < 86:
		w.clock.Advance(time.Duration(w.rnd.IntN(30)) * time.Hour)
	case x < 90:
		for next := w.expire(); !next.IsZero() && !next.After(now); next = w.expire() {
		}
		w.m.expire(now)
	case x < 95:
		for next := w.due(); !next.IsZero() && !next.After(now); next = w.due() {
		}
		w.m.due(now)
	case x < 97:
		w.reopen()
		w.compare(w.s)
	case x < 98:
		if w.o.Crash != nil {
			w.compare(w.o.Crash())
		}
	default:
		to := w.recipient()
		if err := w.s.Erase(w.Context(), App, to); err != nil && !notFound(err) {
			w.Errorf("erase %s: %v", to, err)
		}
		w.m.erase(to)
	}
}

func (w *walk) publishOne() {
	changes := []change{
		ttl(time.Duration(1+w.rnd.IntN(60_000)) * time.Millisecond), priority(notification.Priority(w.rnd.IntN(3) - 1)),
		title(fmt.Sprint("t", w.rnd.IntN(10)/9)),
	}
	if w.rnd.IntN(4) == 0 {
		changes = append(changes, sendAfter(time.Duration(1+w.rnd.IntN(20_000))*time.Millisecond, time.Duration(1+w.rnd.IntN(60_000))*time.Millisecond))
	}
	if w.rnd.IntN(4) == 0 {
		changes = append(changes, collapse(fmt.Sprint("k", w.rnd.IntN(2))))
	}
	n := w.note(w.id(), changes...)
	to := []string{w.recipient()}
	if w.rnd.IntN(3) == 0 {
		for i := range 8 {
			if r := fmt.Sprint("r", i); r != to[0] {
				to = append(to, r)
			}
		}
	}
	for i, got := range w.publish(n, to...) {
		want := w.m.publish(n, to[i])
		if got.Duplicate != want.Duplicate || !errors.Is(got.Err, want.Err) || want.Err == nil && got.Status != want.Status {
			w.Errorf("publish %s to %s: %+v, want %+v", n.ID, to[i], got, want)
		}
	}
}

func (w *walk) settleOne() {
	to, id, as := w.recipient(), w.id(), notification.Acked
	if w.rnd.IntN(4) == 0 {
		as = notification.Recalled
	}
	got := w.settleWith(&mailbox.Settle{Recipient: to, ID: id, As: as})
	if want := w.m.settle(to, id, as, w.clock.Now()); got != want {
		w.Errorf("settle %s of %s as %s: outcome %d, want %d", id, to, as, got, want)
	}
}

// compare compares all readable state of the store with the model.
func (w *walk) compare(s mailbox.Store) {
	w.Helper()
	now := w.clock.Now()
	queries := make([]mailbox.PendingQuery, 8)
	for i := range queries {
		queries[i] = mailbox.PendingQuery{App: App, Recipient: fmt.Sprint("r", i)}
	}
	res, err := s.Pending(w.Context(), queries)
	if err != nil {
		w.Fatal(err)
	}
	for i, q := range queries {
		to := q.Recipient
		var got []string
		for _, it := range res[i].Items {
			got = append(got, fmt.Sprintf("%s/%d", it.N.ID, it.Seq))
		}
		if want := w.m.pending(to, now); !slices.Equal(got, want) {
			w.Errorf("pending of %s: %v, want %v", to, got, want)
		}
		if res[i].LastSeq != w.m.seqs[to] {
			w.Errorf("last seq of %s: %d, want %d", to, res[i].LastSeq, w.m.seqs[to])
		}
		w.compareHistory(s, to, now)
	}
}

func (w *walk) compareHistory(s mailbox.Store, to string, now time.Time) {
	w.Helper()
	var got, want []string
	for cursor, first := int64(0), true; first || cursor != 0; first = false {
		items, next, err := s.History(w.Context(), App, to, 0, 7, cursor)
		if err != nil {
			w.Fatal(err)
		}
		for _, it := range items {
			got = append(got, it.ID+" "+it.Status.String())
		}
		cursor = next
	}
	for _, c := range slices.Backward(w.m.copies) {
		if c.to == to {
			want = append(want, c.n.ID+" "+c.status(now).String())
		}
	}
	if !slices.Equal(got, want) {
		w.Errorf("history of %s:\n got %v\nwant %v", to, got, want)
	}
}
