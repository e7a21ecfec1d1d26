package mailboxdb_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/store/postgres/mailboxdb"
	"godwit.dev/godwit/internal/store/postgres/pgtest"
	"godwit.dev/godwit/internal/store/storetest"
	"godwit.dev/godwit/internal/testkit/testclock"
)

// otherNode is a connection on which a test acts as another node, at a moment of its choice.
type otherNode struct {
	t    *testing.T
	tx   pgx.Tx
	hour int64
}

func newOtherNode(t *testing.T, cfg mailboxdb.Config) *otherNode {
	t.Helper()
	c, err := pgx.Connect(t.Context(), cfg.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(context.Background()) })
	o := &otherNode{t: t, hour: cfg.Now().UnixMilli() / time.Hour.Milliseconds()}
	if _, err := c.Exec(t.Context(), "SET search_path = "+cfg.Schema); err != nil {
		t.Fatal(err)
	}
	if o.tx, err = c.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	return o
}

func (o *otherNode) exec(sql string, args ...any) {
	o.t.Helper()
	if _, err := o.tx.Exec(o.t.Context(), sql, args...); err != nil {
		o.t.Fatalf("%s: %v", sql, err)
	}
}

// waitedFor reports whether another transaction waits for a lock that this one holds.
func (o *otherNode) waitedFor() (waited bool) {
	o.t.Helper()
	err := o.tx.QueryRow(o.t.Context(), "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pg_backend_pid() = ANY(pg_blocking_pids(pid)))").Scan(&waited)
	if err != nil {
		o.t.Fatal(err)
	}
	return waited
}

// commitOnceWaitedFor commits once another transaction waits for a lock that this one holds. It returns false if done was closed first.
func (o *otherNode) commitOnceWaitedFor(done <-chan struct{}) bool {
	o.t.Helper()
	for {
		if o.waitedFor() {
			if err := o.tx.Commit(o.t.Context()); err != nil {
				o.t.Fatal(err)
			}
			<-done
			return true
		}
		select {
		case <-done:
			return false
		case <-time.After(time.Millisecond):
		}
	}
}

func note(now time.Time, id string) *notification.Notification {
	return &notification.Notification{App: storetest.App, ID: id, CreatedAt: now, ExpiresAt: now.Add(time.Hour), Content: notification.Content{Title: "T"}}
}

func publish(t *testing.T, s *mailboxdb.Store, n *notification.Notification, to ...string) []mailbox.AppendResult {
	t.Helper()
	a := &mailbox.Append{N: n, To: to}
	if err := s.Append(context.Background(), []*mailbox.Append{a}); err != nil {
		t.Errorf("publish %s: %v", n.ID, err)
	}
	return a.Results
}

// insertAs stores a copy of r with another id, as another node that holds r's lock does.
func (o *otherNode) insertAs(id string) {
	o.t.Helper()
	o.exec("SELECT key FROM recipient WHERE name = 'r' FOR UPDATE")
	o.exec(fmt.Sprintf(`INSERT INTO note_%[1]d (pos, recipient, seq, id_key, created_at, expires_at, hash, flags, id, body)
		SELECT nextval('copy_pos'), recipient, seq + 1, $1, created_at, expires_at, hash, flags, $2, body FROM note_%[1]d ORDER BY pos DESC LIMIT 1`, o.hour),
		mailboxdb.IDKey(storetest.App, id), id)
	o.exec(fmt.Sprintf("INSERT INTO pending (recipient, pos, seq, expires_at, bytes, flags) SELECT recipient, pos, seq, expires_at, 1, flags FROM note_%d WHERE id = $1", o.hour), id)
	o.exec("UPDATE recipient SET last_seq = last_seq + 1, copies = copies + 1 WHERE name = 'r'")
}

// Without the row's lock the second publish would get a seq that is taken; without a new snapshot after locking, the first publish would be
// stored again.
func TestAPublishWaitsForTheNodeThatHasTheMailboxAndSeesWhatItDid(t *testing.T) {
	clock := testclock.New()
	cfg := mailboxdb.Config{URL: pgtest.URL(t), Schema: pgtest.Schema(t), Now: clock.Now}
	s := open(t, cfg)
	publish(t, s, note(clock.Now(), "a"), "r")
	other := newOtherNode(t, cfg)
	other.insertAs("same")
	done := make(chan struct{})
	var same, next []mailbox.AppendResult
	go func() {
		defer close(done)
		same = publish(t, s, note(clock.Now(), "same"), "r")
		next = publish(t, s, note(clock.Now(), "next"), "r")
	}()
	if !other.commitOnceWaitedFor(done) {
		t.Fatal("a publish did not wait for the node that has the mailbox")
	}
	if !same[0].Duplicate || next[0].Duplicate {
		t.Errorf("the id that the other node stored: %+v, the next: %+v", same, next)
	}
	recs, err := s.Lookup(t.Context(), storetest.App, "next", "r")
	if err != nil || recs[0].Seq != 3 {
		t.Errorf("%+v, %v, want seq 3", recs, err)
	}
}

// Two nodes settle one copy: after the first has done so, the second neither reports it nor stores the outcome again.
func TestCopyBeingSettledElsewhereIsNotSettledTwice(t *testing.T) {
	for name, settle := range map[string]func(s *mailboxdb.Store, now time.Time, pos int64){
		"by an acknowledgement": func(s *mailboxdb.Store, now time.Time, pos int64) {
			q := &mailbox.Settle{App: storetest.App, Recipient: "r", ID: "a", Pos: pos, As: notification.Acked, At: now}
			if err := s.Settle(context.Background(), []*mailbox.Settle{q}); err != nil || q.Outcome != mailbox.SettleAlready {
				t.Errorf("outcome %d, %v, want that it was settled already", q.Outcome, err)
			}
		},
		"by a recall": func(s *mailboxdb.Store, now time.Time, pos int64) {
			q := &mailbox.Settle{App: storetest.App, Recipient: "r", ID: "a", Pos: pos, As: notification.Recalled, At: now}
			if err := s.Settle(context.Background(), []*mailbox.Settle{q}); err != nil || q.Outcome != mailbox.SettleAlready {
				t.Errorf("outcome %d, %v, want that it was settled already", q.Outcome, err)
			}
		},
		"by a newer one of its collapse key": func(s *mailboxdb.Store, now time.Time, _ int64) {
			n := note(now, "b")
			n.CollapseKey = "k"
			publish(t, s, n, "r")
		},
		"by its expiry": func(s *mailboxdb.Store, now time.Time, _ int64) {
			if _, err := s.Expire(context.Background(), now.Add(time.Hour)); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			clock := testclock.New()
			cfg := mailboxdb.Config{URL: pgtest.URL(t), Schema: pgtest.Schema(t), Now: clock.Now}
			s := open(t, cfg)
			told := &storetest.Recorder{}
			s.Observe(told)
			n := note(clock.Now(), "a")
			n.CollapseKey = "k"
			publish(t, s, n, "r")
			pos := told.All().Stored[0].Pos
			other := newOtherNode(t, cfg)
			other.exec("DELETE FROM pending WHERE pos = $1", pos)
			other.exec(fmt.Sprintf("INSERT INTO done_%d (pos, settled_at, attempts, status) VALUES ($1, $2, 1, $3)", other.hour), pos, clock.Now().UnixMilli(), notification.Acked)
			done := make(chan struct{})
			go func() {
				defer close(done)
				settle(s, clock.Now(), pos)
			}()
			if !other.commitOnceWaitedFor(done) {
				t.Fatal("it did not wait for the node that is settling the copy")
			}
			if settled := told.All().Settled; len(settled) != 0 {
				t.Errorf("told of %+v, which the other node tells of", settled)
			}
			recs, err := s.Lookup(t.Context(), storetest.App, "a", "r")
			if err != nil || len(recs) != 1 || recs[0].Status != notification.Acked {
				t.Errorf("%+v, %v", recs, err)
			}
		})
	}
}

// The node that marks a copy as due routes it: only one of two nodes that search at the same time.
func TestTwoNodesShareWhatIsDueAndWhatExpires(t *testing.T) {
	clock := testclock.New()
	cfg := mailboxdb.Config{URL: pgtest.URL(t), Schema: pgtest.Schema(t), Now: clock.Now}
	a, b := open(t, cfg), open(t, cfg)
	told := &storetest.Recorder{}
	a.Observe(told)
	b.Observe(told)
	const copies = 3000
	var to []string
	for i := range copies {
		to = append(to, fmt.Sprint("r", i))
	}
	for i := 0; i < copies; i += 1000 {
		n := note(clock.Now(), fmt.Sprint("n", i))
		n.SendAt, n.ExpiresAt = clock.Now().Add(time.Second), clock.Now().Add(time.Minute)
		publish(t, a, n, to[i:i+1000]...)
	}
	sweep := func(do func(s *mailboxdb.Store) (time.Time, error)) {
		var nodes sync.WaitGroup
		for _, s := range []*mailboxdb.Store{a, b} {
			nodes.Go(func() {
				for {
					next, err := do(s)
					if err != nil {
						t.Error(err)
						return
					}
					if next.IsZero() || next.After(clock.Now()) {
						return
					}
				}
			})
		}
		nodes.Wait()
	}
	clock.Advance(time.Second)
	sweep(func(s *mailboxdb.Store) (time.Time, error) { return s.Due(t.Context(), clock.Now()) })
	clock.Advance(time.Minute)
	sweep(func(s *mailboxdb.Store) (time.Time, error) { return s.Expire(t.Context(), clock.Now()) })
	all := told.All()
	due, expired := map[string]bool{}, map[string]bool{}
	for i := range all.Due {
		due[all.Due[i].Recipient] = true
	}
	for _, s := range all.Settled {
		expired[s.Recipient] = true
	}
	if len(all.Due) != copies || len(due) != copies || len(all.Settled) != copies || len(expired) != copies {
		t.Errorf("told of %d due to %d recipients and of %d expired of %d, want %d each, once", len(all.Due), len(due), len(all.Settled), len(expired), copies)
	}
}
