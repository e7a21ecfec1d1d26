// Package storetest is the conformance suite of mailbox stores: every implementation must pass it.
package storetest

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/testkit/testclock"
	"godwit.dev/godwit/internal/testkit/thorough"
)

// Options are a test's requirements of a store.
type Options struct {
	MaxPending int              // most pending copies of a recipient; 0: 1000
	Now        func() time.Time // the store's clock
	Crashes    bool             // the test crashes the server: while its files are copied, no other test may use it
}

// Opened is a store under test.
type Opened struct {
	Store mailbox.Store
	// Reopen closes the store and opens it again.
	Reopen func() mailbox.Store
	// Crash opens the files as they would be if the machine had stopped now, while the store is still open. The test's cleanup closes the
	// returned store. Nil: the store cannot be tested like this.
	Crash func() mailbox.Store
}

// OpenFunc opens an empty store for one test. The test's cleanup closes it.
type OpenFunc func(t *testing.T, opts Options) Opened

// Ability is a feature that a store may lack, as CONTRACT.md allows.
type Ability int

// Abilities.
const (
	Dedup Ability = iota
	Collapse
	Recall
	Status
	AckAll
	Reply
	Escalate
	Attempts
	Inbox // the store is an inbox.Store
	Crash // Opened.Crash may still be nil
)

type testCase struct {
	name  string
	needs []Ability
	run   func(e *env)
}

// Run runs all tests except those for abilities that the store lacks.
func Run(t *testing.T, open OpenFunc, without ...Ability) {
	t.Helper()
	run(t, open, func(c *testCase) bool {
		return !slices.ContainsFunc(c.needs, func(a Ability) bool { return slices.Contains(without, a) })
	})
	t.Run(randomWork, func(t *testing.T) { testModel(t, open, without) })
}

const randomWork = "RandomWorkAgreesWithASimpleModel"

// sampled is how many of the tests RunAgain leaves out for each that it runs.
const sampled = 9

// RunAgain tests a variant of a store that Run has tested in the test named as guard. On each change it runs the random work, the tests
// that crash the store, and a tenth of the others, drawn anew each time; in make check-all, or with GODWIT_TEST_THOROUGH=1, it runs all.
func RunAgain(t *testing.T, guard string, open OpenFunc) {
	t.Helper()
	run(t, open, func(c *testCase) bool {
		return thorough.Run() || slices.Contains(c.needs, Crash) || rand.IntN(1+sampled) == 0 // no secret
	})
	t.Run(randomWork, func(t *testing.T) { testModel(t, open, nil) })
	t.Run("AllOthers", func(t *testing.T) { thorough.Only(t, guard) })
}

// run runs the tests that are wanted.
func run(t *testing.T, open OpenFunc, wanted func(c *testCase) bool) {
	t.Helper()
	for _, group := range [][]testCase{coreCases, settleCases, timeCases, listCases, dedupCases, ackAllCases, lifeCases, headCases, replyCases, escalateCases, attemptCases, inboxCases} {
		for _, c := range group {
			if !wanted(&c) {
				continue
			}
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				c.run(newEnv(t, open, Options{Crashes: slices.Contains(c.needs, Crash)}))
			})
		}
	}
}

// App is the app of the suite's notifications unless a test says otherwise.
const App = "app"

// Recorder is an observer that records everything.
type Recorder struct {
	mu      sync.Mutex
	delay   time.Duration
	batches []mailbox.Batch
}

// Committed implements mailbox.Observer.
func (r *Recorder) Committed(b *mailbox.Batch) {
	r.mu.Lock()
	delay := r.delay
	r.mu.Unlock()
	if delay > 0 {
		time.Sleep(delay) // so that the test detects a call that does not wait
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.batches = append(r.batches, mailbox.Batch{Stored: slices.Clone(b.Stored), Due: slices.Clone(b.Due), Settled: slices.Clone(b.Settled), Inboxes: slices.Clone(b.Inboxes)})
}

// slow delays the observer by d per commit.
func (r *Recorder) slow(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.delay = d
}

// All returns everything recorded so far as one batch.
func (r *Recorder) All() (all mailbox.Batch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.batches {
		b := &r.batches[i]
		all.Stored, all.Due, all.Settled = append(all.Stored, b.Stored...), append(all.Due, b.Due...), append(all.Settled, b.Settled...)
		all.Inboxes = append(all.Inboxes, b.Inboxes...)
	}
	return all
}

// env is one test's store, clock and observer, with the suite's helpers.
type env struct {
	*testing.T
	open  OpenFunc
	o     Opened
	s     mailbox.Store
	clock *testclock.Clock
	rec   *Recorder
}

func newEnv(t *testing.T, open OpenFunc, opts Options) *env {
	t.Helper()
	e := &env{T: t, open: open, clock: testclock.New(), rec: &Recorder{}}
	opts.Now = e.clock.Now
	e.o = open(t, opts)
	e.use(e.o.Store)
	return e
}

func (e *env) reopen() {
	e.Helper()
	e.use(e.o.Reopen())
}

func (e *env) use(s mailbox.Store) {
	e.s = s
	s.Observe(e.rec)
}

type change func(*notification.Notification)

func app(name string) change { return func(n *notification.Notification) { n.App = name } }
func ttl(d time.Duration) change {
	return func(n *notification.Notification) { n.ExpiresAt = n.CreatedAt.Add(d) }
}

func sendAfter(d, ttl time.Duration) change {
	return func(n *notification.Notification) { n.SendAt, n.ExpiresAt = n.CreatedAt.Add(d), n.CreatedAt.Add(d+ttl) }
}

func priority(p notification.Priority) change {
	return func(n *notification.Notification) { n.Priority = p }
}
func ack(m notification.AckMode) change { return func(n *notification.Notification) { n.Ack = m } }
func collapse(key string) change        { return func(n *notification.Notification) { n.CollapseKey = key } }

func title(s string) change { return func(n *notification.Notification) { n.Content.Title = s } }

// note returns a notification created now.
func (e *env) note(id string, changes ...change) *notification.Notification {
	now := e.clock.Now()
	n := &notification.Notification{
		App: App, ID: id, CreatedAt: now, ExpiresAt: now.Add(time.Hour),
		Content: notification.Content{Title: "T", Body: "B", Category: "C", Data: []byte(`{"k":1}`), ContentType: "application/json"},
	}
	for _, c := range changes {
		c(n)
	}
	return n
}

// publish appends one notification and returns the results for its copies.
func (e *env) publish(n *notification.Notification, to ...string) []mailbox.AppendResult {
	e.Helper()
	a := &mailbox.Append{N: n, To: to}
	if err := e.s.Append(e.Context(), []*mailbox.Append{a}); err != nil {
		e.Fatalf("append %s: %v", n.ID, err)
	}
	if len(a.Results) != len(to) {
		e.Fatalf("append %s: %d results for %d recipients", n.ID, len(a.Results), len(to))
	}
	return a.Results
}

// stored publishes a notification and checks that every copy was newly stored.
func (e *env) stored(n *notification.Notification, to ...string) {
	e.Helper()
	want := notification.Stored
	if !n.SendAt.IsZero() {
		want = notification.Scheduled
	}
	for i, r := range e.publish(n, to...) {
		if r.Err != nil || r.Duplicate || r.Status != want || !r.ExpiresAt.Equal(n.ExpiresAt) {
			e.Fatalf("append %s to %s: %+v, want it newly %s until %s", n.ID, to[i], r, want, n.ExpiresAt)
		}
	}
}

// storedAtOnce publishes in one batch and insists that every copy was newly stored.
func (e *env) storedAtOnce(batch ...*mailbox.Append) {
	e.Helper()
	if err := e.s.Append(e.Context(), batch); err != nil {
		e.Fatalf("append %d: %v", len(batch), err)
	}
	for _, a := range batch {
		for i, r := range a.Results {
			if r.Err != nil || r.Duplicate || r.Status != notification.Stored || !r.ExpiresAt.Equal(a.N.ExpiresAt) {
				e.Fatalf("append %s to %s: %+v, want it newly stored until %s", a.N.ID, a.To[i], r, a.N.ExpiresAt)
			}
		}
	}
}

// ackedAtOnce acknowledges in one batch and insists that each copy is settled by it.
func (e *env) ackedAtOnce(batch ...*mailbox.Settle) {
	e.Helper()
	if err := e.s.Settle(e.Context(), batch); err != nil {
		e.Fatalf("settle %d: %v", len(batch), err)
	}
	for _, q := range batch {
		if q.Outcome != mailbox.SettleDone {
			e.Fatalf("settle %s of %s: outcome %d", q.ID, q.Recipient, q.Outcome)
		}
	}
}

func (e *env) ackOf(to, id string) *mailbox.Settle {
	return &mailbox.Settle{App: App, Recipient: to, ID: id, As: notification.Acked, At: e.clock.Now()}
}

func (e *env) pending(q mailbox.PendingQuery) mailbox.PendingResult {
	e.Helper()
	if q.App == "" {
		q.App = App
	}
	res, err := e.s.Pending(e.Context(), []mailbox.PendingQuery{q})
	if err != nil {
		e.Fatalf("pending of %s: %v", q.Recipient, err)
	}
	return res[0]
}

// wantPending checks the ids pending for a recipient, in order.
func (e *env) wantPending(to string, ids ...string) []mailbox.Item {
	e.Helper()
	items := e.pending(mailbox.PendingQuery{Recipient: to}).Items
	wantIDs(e, "pending of "+to, itemIDs(items), ids)
	return items
}

func itemIDs(items []mailbox.Item) (ids []string) {
	for _, it := range items {
		ids = append(ids, it.N.ID)
	}
	return ids
}

func wantIDs(e *env, what string, got, want []string) {
	e.Helper()
	if !slices.Equal(got, want) {
		e.Fatalf("%s: got %v, want %v", what, got, want)
	}
}

func (e *env) settleWith(q *mailbox.Settle) mailbox.SettleOutcome {
	e.Helper()
	if q.App == "" {
		q.App = App
	}
	if q.At.IsZero() {
		q.At = e.clock.Now()
	}
	if err := e.s.Settle(e.Context(), []*mailbox.Settle{q}); err != nil {
		e.Fatalf("settle %s: %v", q.ID, err)
	}
	return q.Outcome
}

// ends settles a copy by its id and checks the outcome.
func (e *env) ends(to, id string, as notification.Status, want mailbox.SettleOutcome) {
	e.Helper()
	if got := e.settleWith(&mailbox.Settle{Recipient: to, ID: id, As: as}); got != want {
		e.Fatalf("settle %s of %s as %s: outcome %d, want %d", id, to, as, got, want)
	}
}

func (e *env) acked(to, id string) {
	e.Helper()
	e.ends(to, id, notification.Acked, mailbox.SettleDone)
}

func (e *env) nacked(to, id, reason string, want mailbox.SettleOutcome) {
	e.Helper()
	q := &mailbox.Settle{Recipient: to, ID: id, As: notification.Failed, Nack: true, Reason: reason}
	if got := e.settleWith(q); got != want {
		e.Fatalf("nack of %s: outcome %d, want %d", id, got, want)
	}
}

// record looks one copy up.
func (e *env) record(to, id string) mailbox.Record {
	e.Helper()
	recs, err := e.s.Lookup(e.Context(), App, id, to)
	if err != nil || len(recs) != 1 {
		e.Fatalf("look up %s of %s: %d records, %v", id, to, len(recs), err)
	}
	return recs[0]
}

func (e *env) wantStatus(to, id string, want notification.Status) mailbox.Record {
	e.Helper()
	rec := e.record(to, id)
	if rec.Status != want {
		e.Fatalf("%s of %s is %s, want %s", id, to, rec.Status, want)
	}
	return rec
}
