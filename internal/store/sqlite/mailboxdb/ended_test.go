package mailboxdb_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/store/sqlite/faultvfs"
	"godwit.dev/godwit/internal/store/sqlite/mailboxdb"
)

// mixed publishes notifications, some of which stay pending while others end in every possible way, and returns their ids.
func mixed(t *testing.T, s *mailboxdb.Store, at time.Time, name string) (ids []string) {
	t.Helper()
	for i := range 70 {
		n := &notification.Notification{App: "app", ID: fmt.Sprint(name, i), CreatedAt: at, ExpiresAt: at.Add(time.Hour)}
		a := &mailbox.Append{N: n, To: []string{"a", "b"}, Results: make([]mailbox.AppendResult, 2)}
		if err := s.Append(t.Context(), []*mailbox.Append{a}); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, n.ID)
		q := &mailbox.Settle{App: "app", Recipient: "a", ID: n.ID, At: at.Add(time.Duration(i) * time.Second), Attempts: uint32(i)}
		switch i % 5 {
		case 0:
			q.As, q.DeliveredAt = notification.Acked, at.Add(time.Millisecond)
		case 1:
			q.As = notification.Recalled
		case 2:
			recs, err := s.Lookup(t.Context(), "app", n.ID, "a")
			if err != nil {
				t.Fatal(err)
			}
			s.Mark([]mailbox.Mark{{App: "app", Recipient: "a", ID: n.ID, Pos: recs[0].Pos, Attempts: 3, DeliveredAt: at}})
			if err := s.WriteNotes(); err != nil {
				t.Fatal(err)
			}
			q.As = notification.Acked
		case 3:
			q.As, q.At = notification.Acked, n.ExpiresAt.Add(time.Hour) // too late: it has expired
		default:
			continue
		}
		if err := s.Settle(t.Context(), []*mailbox.Settle{q}); err != nil {
			t.Fatal(err)
		}
	}
	return ids
}

func records(t *testing.T, s *mailboxdb.Store, ids []string) (list []mailbox.Record) {
	t.Helper()
	for _, id := range ids {
		recs, err := s.Lookup(t.Context(), "app", id, "")
		if err != nil || len(recs) != 2 {
			t.Fatalf("%s: %+v, %v", id, recs, err)
		}
		list = append(list, recs...)
	}
	return list
}

// A copy's outcome is the same in all places where it is stored: in the commits' rows, in a sealed slice, and after a power cut or a
// restart in between. Pending copies can be settled at each of these times.
func TestHowACopyEndedIsToldAlikeInEveryPlace(t *testing.T) {
	now := time.Now().Truncate(time.Millisecond)
	cfg := config()
	cfg.Now = func() time.Time { return now }
	cfg.SmallSlices(8)
	vfs := faultvfs.New(t)
	cfg.VFS = vfs.Name()
	dir := t.TempDir()
	path := filepath.Join(dir, "m.db")
	s := openAt(t, path, cfg)
	first := mixed(t, s, now, "first")
	want := records(t, s, first)
	if n, err := s.Unchanged(t.Context()); err != nil || n != 140 {
		t.Fatalf("%d rows were left as they were stored, %v; want all", n, err)
	}
	check := func(when string, s *mailboxdb.Store) {
		t.Helper()
		for i, got := range records(t, s, first) {
			if fmt.Sprint(got) != fmt.Sprint(want[i]) {
				t.Errorf("%s: %+v, want %+v", when, got, want[i])
			}
		}
	}
	cuts := 0
	cut := func(when string) *mailboxdb.Store {
		t.Helper()
		cuts++
		copied := filepath.Join(dir, fmt.Sprint("cut", cuts))
		if err := vfs.PowerCut(path, copied); err != nil {
			t.Fatal(err)
		}
		left := openAt(t, copied, cfg)
		check(when, left)
		return left
	}
	check("at once", s)
	cut("after a power cut before it is sealed")
	mixed(t, s, now, "second")
	untilSealed(t, s, 1)
	check("sealed", s)
	left := cut("after a power cut when it is sealed")
	for i, id := range first {
		q := &mailbox.Settle{App: "app", Recipient: "b", ID: id, As: notification.Acked, At: now}
		if err := left.Settle(t.Context(), []*mailbox.Settle{q}); err != nil || q.Outcome != mailbox.SettleDone {
			t.Fatalf("%d: a copy that waits in a sealed slice: %d, %v", i, q.Outcome, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openAt(t, path, cfg)
	check("after a restart", s)
	mixed(t, s, now, "third")
	mixed(t, s, now, "fourth")
	untilSealed(t, s, 2)
	check("when more was sealed", s)
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(time.Millisecond) { // a slice's settlements are deleted after it is sealed
		n, err := s.Settlements(t.Context())
		if err == nil && n <= 100 {
			break
		}
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("%d commits that are folded are kept, %v", n, err)
		}
	}
	for more := true; more; {
		var err error
		if more, err = s.Prune(t.Context(), now.Add(30*time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	for _, was := range want {
		_, err := s.Lookup(t.Context(), "app", was.ID, was.To)
		gone := !was.SettledAt.IsZero() && was.SettledAt.Before(now.Add(30*time.Minute))
		if gone != errors.Is(err, mailbox.ErrNotFound) || !gone && err != nil {
			t.Errorf("after pruning: %+v, %v", was, err)
		}
	}
}

// An acknowledgement within the grace period after the expiry counts wherever the expiry is stored.
func TestAnExpiryIsTakenBackWhereverItIsNoted(t *testing.T) {
	now := time.Now().Truncate(time.Millisecond)
	for name, sealed := range map[string]bool{"by a commit": false, "in a sealed slice": true} {
		t.Run(name, func(t *testing.T) {
			cfg := config()
			cfg.Now = func() time.Time { return now }
			cfg.SmallSlices(5)
			path := filepath.Join(t.TempDir(), "m.db")
			s := openAt(t, path, cfg)
			n := &notification.Notification{App: "app", ID: "n", CreatedAt: now.Add(-time.Hour), ExpiresAt: now.Add(-time.Second)}
			if err := s.Append(t.Context(), []*mailbox.Append{{N: n, To: []string{"r"}}}); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Expire(t.Context(), now); err != nil {
				t.Fatal(err)
			}
			if sealed {
				fill(t, s, 1000, true)
				untilSealed(t, s, 20)
			}
			q := &mailbox.Settle{App: "app", Recipient: "r", ID: "n", As: notification.Acked, At: now, DeliveredAt: n.ExpiresAt.Add(-time.Second), Attempts: 2}
			if sealed {
				q.Pos = 1
			}
			if err := s.Settle(t.Context(), []*mailbox.Settle{q}); err != nil || q.Outcome != mailbox.SettleDone {
				t.Fatalf("outcome %d, %v", q.Outcome, err)
			}
			for range 2 {
				recs, err := s.Lookup(t.Context(), "app", "n", "r")
				if err == nil && len(recs) > 1 {
					recs = recs[len(recs)-1:]
				}
				if err != nil || recs[0].Status != notification.Acked || recs[0].Attempts != 2 || !recs[0].SettledAt.Equal(now) {
					t.Errorf("%+v, %v", recs, err)
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				s = openAt(t, path, cfg)
			}
		})
	}
}

// A file of an earlier version stays usable: outcomes in its rows count, and pending copies in it are settled there.
func TestAFileOfBeforeGoesOn(t *testing.T) {
	path, now := filepath.Join(t.TempDir(), "m.db"), time.Now().Truncate(time.Millisecond)
	db, err := mailboxdb.OpenFormer(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Do(t.Context(), func(c *sqlite.Conn) error {
		return sqlitex.ExecuteScript(c, fmt.Sprintf(`
			INSERT INTO app(key, name) VALUES (1, 'app');
			INSERT INTO recipient(key, app, name, last_seq, last_seen) VALUES (1, 1, 'r', 0, 0);
			WITH RECURSIVE i(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM i WHERE n < 40)
			INSERT INTO notification SELECT n, 1, n %% 2, CASE n %% 2 WHEN 1 THEN 2 ELSE 10 END, 0, 2, 0, -1, n, %[1]d, 0, %[1]d + 3600000,
				-%[1]d, CASE n %% 2 WHEN 1 THEN -%[1]d ELSE %[1]d + 5 END, 7, 'old' || n, NULL FROM i;
			INSERT INTO content SELECT pos, x'0100000000' || x'00' FROM notification WHERE open = 1;`, now.UnixMilli()), nil)
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	c, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	r, err := mailboxdb.Ready(c, nil)
	if err := errors.Join(err, c.Close()); err != nil || r != (mailboxdb.Repaired{}) {
		t.Fatalf("made ready for a repair: %+v, %v", r, err)
	}
	cfg := config()
	cfg.SmallSlices(5)
	for range 2 {
		s := openAt(t, path, cfg)
		if n := s.Stats().Pending; n != 20 {
			t.Fatalf("%d wait, want 20", n)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	s := openAt(t, path, cfg)
	for i := range 40 {
		q := &mailbox.Settle{App: "app", Recipient: "r", ID: fmt.Sprint("old", i+1), As: notification.Acked, At: now}
		want := mailbox.SettleAlready
		if i%2 == 0 {
			want = mailbox.SettleDone
		}
		if err := s.Settle(t.Context(), []*mailbox.Settle{q}); err != nil || q.Outcome != want {
			t.Fatalf("%s: outcome %d, %v", q.ID, q.Outcome, err)
		}
	}
	fill(t, s, 1000, true)
	untilSealed(t, s, 30)
	for range 2 {
		if n := s.Stats().Pending; n != 0 {
			t.Errorf("%d wait", n)
		}
		for i := range 40 {
			if recs, err := s.Lookup(t.Context(), "app", fmt.Sprint("old", i+1), "r"); err != nil || recs[0].Status != notification.Acked {
				t.Errorf("%d: %+v, %v", i+1, recs, err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = openAt(t, path, cfg)
	}
}

// TestARepairHasRowsSayWhetherTheyWait runs Ready on a complete file, and on one that lost the outcomes of a stretch.
func TestARepairHasRowsSayWhetherTheyWait(t *testing.T) {
	for name, lost := range map[string]bool{"all is there": false, "outcomes are lost": true} {
		t.Run(name, func(t *testing.T) {
			path, now := filepath.Join(t.TempDir(), "m.db"), time.Now().Truncate(time.Millisecond)
			cfg := config()
			cfg.SmallSlices(9)
			s := openAt(t, path, cfg)
			var names []string
			for i := range 100 {
				names = append(names, fmt.Sprint("r", i))
			}
			for i := range 13 { // 1,300 copies, of which every tenth is pending
				n := &notification.Notification{App: "app", ID: fmt.Sprint("n", i), CreatedAt: now, ExpiresAt: now.Add(time.Hour)}
				if err := s.Append(t.Context(), []*mailbox.Append{{N: n, To: names}}); err != nil {
					t.Fatal(err)
				}
				var batch []*mailbox.Settle
				for k, to := range names {
					if k%10 > 0 {
						batch = append(batch, &mailbox.Settle{App: "app", Recipient: to, ID: n.ID, As: notification.Acked, At: now})
					}
				}
				if err := s.Settle(t.Context(), batch); err != nil {
					t.Fatal(err)
				}
			}
			untilSealed(t, s, 2)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			const missing = 461 // settled copies at positions 512 to 1023; those after 1000 may have their outcomes in their rows
			c, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
			if err != nil {
				t.Fatal(err)
			}
			gone := map[string]bool{}
			if lost {
				err = sqlitex.ExecuteTransient(c, "DELETE FROM outcome WHERE first = 512", nil)
				gone["outcome"] = true
			}
			r, rerr := mailboxdb.Ready(c, gone)
			open, oerr := sqlitex.ResultInt(c.Prep("SELECT count(*) FROM notification WHERE open = 1"))
			apart, aerr := sqlitex.ResultInt(c.Prep("SELECT count(*) FROM notification WHERE open = 2 AND pos > 1023"))
			if err := errors.Join(err, rerr, oerr, aerr, c.Close()); err != nil {
				t.Fatal(err)
			}
			if want := map[bool]int64{true: missing}[lost]; r.Ended < want-23 || r.Ended > want || r.Unsure != 0 || open != 130 || apart != 0 {
				t.Errorf("%+v, %d wait, %d do not say so", r, open, apart)
			}
			for _, suffix := range []string{"-sums", "-note"} { // what was written past them
				_ = os.Remove(path + suffix)
			}
			s = openAt(t, path, cfg)
			if n := s.Stats().Pending; n != 130 {
				t.Errorf("%d wait", n)
			}
			for id, want := range map[string]notification.Status{"n1": notification.Acked, "n7": map[bool]notification.Status{false: notification.Acked, true: notification.Expired}[lost], "n12": notification.Acked} {
				if recs, err := s.Lookup(t.Context(), "app", id, "r5"); err != nil || recs[0].Status != want {
					t.Errorf("%s: %+v, %v", id, recs, err)
				}
			}
			fill(t, s, 1000, true)
			untilSealed(t, s, 4)
			if recs, err := s.Lookup(t.Context(), "app", "n12", "r5"); err != nil || recs[0].Status != notification.Acked {
				t.Errorf("%+v, %v", recs, err)
			}
		})
	}
}

// One call ends as many copies as have come since the call before. With a slice alone, copies of large publishes would end more slowly than they come,
// and their recipients would take memory without limit.
func TestCopiesEndAndRecipientsLeaveNoMoreSlowlyThanTheyCome(t *testing.T) {
	const rounds, each, idle = 20, 4000, 100
	now := time.Now().Truncate(time.Millisecond)
	cfg := config()
	cfg.Now, cfg.MaxIdle = func() time.Time { return now }, idle
	s := openAt(t, filepath.Join(t.TempDir(), "m.db"), cfg)
	for round := range rounds {
		everybody := make([]string, each)
		for i := range everybody {
			everybody[i] = fmt.Sprint("unit-", round, "-", i)
		}
		n := &notification.Notification{App: "app", ID: fmt.Sprint("n", round), CreatedAt: now.Add(-time.Hour), ExpiresAt: now.Add(-time.Second)}
		if err := s.Append(t.Context(), []*mailbox.Append{{N: n, To: everybody}}); err != nil {
			t.Fatal(err)
		}
		if next, err := s.Expire(t.Context(), now); err != nil || !next.IsZero() {
			t.Errorf("round %d: after one call more are overdue since %s, %v", round, next, err)
		}
	}
	if n := s.InMemory(); n > rounds*each/4 {
		t.Errorf("%d of %d recipients are in memory, and all have ended", n, rounds*each)
	}
}
