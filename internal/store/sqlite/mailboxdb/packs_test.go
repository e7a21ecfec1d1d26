package mailboxdb_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/store/sqlite/faultvfs"
	"godwit.dev/godwit/internal/store/sqlite/mailboxdb"
)

// toMany publishes to n recipients, which earlier publishes may have named, too.
func toMany(t *testing.T, s *mailboxdb.Store, id string, n int, at time.Time) *mailbox.Append {
	t.Helper()
	a := &mailbox.Append{N: &notification.Notification{App: "app", ID: id, CreatedAt: at, ExpiresAt: at.Add(time.Hour), CollapseKey: "k" + id}}
	for i := range n {
		a.To = append(a.To, fmt.Sprint("r", i))
	}
	if err := s.Append(t.Context(), []*mailbox.Append{a}); err != nil {
		t.Fatal(err)
	}
	return a
}

func wantPacked(t *testing.T, s *mailboxdb.Store, want int) {
	t.Helper()
	if n, err := s.Packed(t.Context()); err != nil || n != want {
		t.Errorf("%d copies are packed, %v; want %d", n, err, want)
	}
}

// Copies of a publish to many recipients have no rows. Their recipients and outcomes can be read all the same: at once, after a power cut,
// in a sealed slice, and after the pending ones have got rows.
func TestCopiesOfAPublishArePacked(t *testing.T) {
	now := time.Now().Truncate(time.Millisecond)
	vfs := faultvfs.New(t)
	cfg := config()
	cfg.Now, cfg.VFS = func() time.Time { return now }, vfs.Name()
	cfg.SmallSlices(11) // so that only the third publish fills a slice: sealing begins by itself, and unpacks
	dir := t.TempDir()
	path := filepath.Join(dir, "m.db")
	s := openAt(t, path, cfg)
	const many = 900
	for _, id := range []string{"a", "b"} {
		toMany(t, s, id, many, now)
	}
	wantPacked(t, s, 2*many)
	waits := func(i int) bool { return i%100 == 99 }
	var batch []*mailbox.Settle
	for i := range many {
		if !waits(i) {
			batch = append(batch, &mailbox.Settle{App: "app", Recipient: fmt.Sprint("r", i), ID: "a", As: notification.Acked, At: now, Attempts: 1})
		}
	}
	if err := s.Settle(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	check := func(when string, s *mailboxdb.Store) {
		t.Helper()
		recs, err := s.Lookup(t.Context(), "app", "a", "")
		if err != nil || len(recs) != many {
			t.Fatalf("%s: %d, %v", when, len(recs), err)
		}
		for i, rec := range recs {
			want := notification.Acked
			if waits(i) {
				want = notification.Stored
			}
			if rec.To != fmt.Sprint("r", i) || rec.Status != want || rec.Seq != 1 || rec.Pos != int64(i+1) {
				t.Fatalf("%s: copy %d: %+v", when, i, rec)
			}
		}
		list, _, err := s.History(t.Context(), "app", "r599", 0, 10, 0)
		if err != nil || len(list) != 2 || list[0].ID != "b" || list[0].Seq != 2 || list[1].ID != "a" || list[1].Status != notification.Stored {
			t.Errorf("%s: the history of one: %+v, %v", when, list, err)
		}
		res, err := s.Pending(t.Context(), []mailbox.PendingQuery{{App: "app", Recipient: "r599"}, {App: "app", Recipient: "r600"}})
		if err != nil || len(res[0].Items) != 2 || len(res[1].Items) != 1 || res[0].Items[0].N.ID != "a" || res[1].Items[0].Seq != 2 {
			t.Errorf("%s: what waits: %+v, %v", when, res, err)
		}
	}
	cut := func(when string) {
		t.Helper()
		copied := filepath.Join(dir, strings.ReplaceAll(when, " ", "-"))
		if err := vfs.PowerCut(path, copied); err != nil {
			t.Fatal(err)
		}
		check(when, openAt(t, copied, cfg))
	}
	check("at once", s)
	cut("after a power cut")
	c := &mailbox.Append{N: &notification.Notification{App: "app", ID: "c", CreatedAt: now, ExpiresAt: now.Add(time.Hour)}}
	for i := range many {
		c.To = append(c.To, fmt.Sprint("other", i))
	}
	if err := s.Append(t.Context(), []*mailbox.Append{c}); err != nil {
		t.Fatal(err)
	}
	untilSealed(t, s, 1)
	check("sealed", s)
	cut("after a power cut when it is sealed")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openAt(t, path, cfg)
	check("after a restart", s)
	for i := range many {
		q := &mailbox.Settle{App: "app", Recipient: fmt.Sprint("r", i), ID: "a", As: notification.Recalled, At: now}
		want := mailbox.SettleAlready
		if waits(i) {
			want = mailbox.SettleDone
		}
		if err := s.Settle(t.Context(), []*mailbox.Settle{q}); err != nil || q.Outcome != want {
			t.Fatalf("copy %d: outcome %d, %v; want %d", i, q.Outcome, err, want)
		}
	}
}

// Packed copies change independently: one is marked as delivered, one rejected, one erased, one is an expired duplicate, one is pruned.
func TestAPackedCopyGoesItsOwnWay(t *testing.T) {
	now := time.Now().Truncate(time.Millisecond)
	cfg := config()
	cfg.Now = func() time.Time { return now }
	path := filepath.Join(t.TempDir(), "m.db")
	s := openAt(t, path, cfg)
	old := now.Add(-30 * 24 * time.Hour)
	toMany(t, s, "x", 6, old)
	a := toMany(t, s, "n", 6, now)
	pos := func(i int) int64 {
		recs, err := s.Lookup(t.Context(), "app", "n", a.To[i])
		if err != nil {
			t.Fatal(err)
		}
		return recs[0].Pos
	}
	s.Mark([]mailbox.Mark{{App: "app", Recipient: "r0", ID: "n", Pos: pos(0), Attempts: 3, DeliveredAt: now}})
	if err := s.WriteNotes(); err != nil {
		t.Fatal(err)
	}
	settle(t, s, &mailbox.Settle{App: "app", Recipient: "r1", ID: "n", As: notification.Failed, Nack: true, Reason: "full", At: now})
	if err := s.Erase(t.Context(), "app", "r2"); err != nil {
		t.Fatal(err)
	}
	settle(t, s, &mailbox.Settle{App: "app", Recipient: "r3", ID: "n", As: notification.Acked, At: now})
	if _, err := s.Expire(t.Context(), now); err != nil { // those to x
		t.Fatal(err)
	}
	again := toMany(t, s, "x", 2, now.Add(notification.DedupWindow+time.Hour))
	if again.Results[0].Duplicate || again.Results[1].Duplicate {
		t.Errorf("what ended long ago is a duplicate: %+v", again.Results)
	}
	check := func(when string, pruned bool) {
		t.Helper()
		recs, err := s.Lookup(t.Context(), "app", "n", "")
		if pruned && err == nil { // the acknowledged one is gone
			recs = slices.Insert(recs, 2, mailbox.Record{To: "r3", Status: notification.Acked})
		}
		if err != nil || len(recs) != 5 {
			t.Fatalf("%s: %+v, %v", when, recs, err)
		}
		if recs[0].Status != notification.Delivered || recs[0].Attempts != 3 || recs[1].Nacks != 1 || recs[1].Reason != "full" ||
			recs[2].To != "r3" || recs[2].Status != notification.Acked || recs[3].Status != notification.Stored {
			t.Errorf("%s: %+v", when, recs)
		}
		want := map[bool]int{false: 5, true: 2}[pruned] // r0 and r1 have new copies, and r2 is erased
		if recs, err = s.Lookup(t.Context(), "app", "x", ""); err != nil || len(recs) != want {
			t.Errorf("%s: %d of x, %v; want %d: %+v", when, len(recs), err, want, recs)
		}
	}
	check("at once", false)
	wantPacked(t, s, 3+3+2)
	reopen := func() {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = openAt(t, path, cfg)
	}
	reopen()
	check("after a restart", false)
	for more := true; more; {
		var err error
		if more, err = s.Prune(t.Context(), now.Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	check("pruned", true)
	reopen()
	check("pruned and after a restart", true)
	wantPacked(t, s, 2+2)
	if n := s.Stats().Pending; n != 4+2 {
		t.Errorf("%d wait", n)
	}
}

// A commit that fails leaves a pack unchanged, also in the writer's memory.
func TestFailedCommitLeavesPackUnchanged(t *testing.T) {
	s, now := openAt(t, filepath.Join(t.TempDir(), "m.db"), config()), time.Now()
	a := toMany(t, s, "n", 5, now)
	if err := s.MoveOutInVain(t.Context(), 2); err == nil {
		t.Fatal("it did not fail")
	}
	wantPacked(t, s, 5)
	q := &mailbox.Settle{App: "app", Recipient: a.To[1], ID: "n", As: notification.Acked, At: now}
	if err := s.Settle(t.Context(), []*mailbox.Settle{q}); err != nil || q.Outcome != mailbox.SettleDone {
		t.Errorf("outcome %d, %v", q.Outcome, err)
	}
}

// An earlier version refuses a file with packs, with a clear message.
func TestAFormerVersionRefusesPacks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.db")
	if err := openAt(t, path, config()).Close(); err != nil {
		t.Fatal(err)
	}
	db, err := mailboxdb.OpenUnpacked(t.Context(), path)
	if err == nil {
		err = errors.Join(errors.New("it was opened"), db.Close())
	}
	if !strings.Contains(err.Error(), "newer version") {
		t.Errorf("got %v", err)
	}
}

// A file of an earlier version accepts publishes to many recipients.
func TestAFileOfBeforePacksGoesOn(t *testing.T) {
	path, now := filepath.Join(t.TempDir(), "m.db"), time.Now().Truncate(time.Millisecond)
	db, err := mailboxdb.OpenUnpacked(t.Context(), path)
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	cfg := config()
	cfg.PackFrom(1 << 20) // as rows
	s := openAt(t, path, cfg)
	toMany(t, s, "rows", 40, now)
	wantPacked(t, s, 0)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openAt(t, path, config())
	a := toMany(t, s, "packed", 40, now)
	wantPacked(t, s, 40)
	res, err := s.Pending(t.Context(), []mailbox.PendingQuery{{App: "app", Recipient: a.To[39]}})
	if err != nil || !slices.EqualFunc(res[0].Items, []string{"rows", "packed"}, func(i mailbox.Item, id string) bool { return i.N.ID == id }) {
		t.Errorf("%+v, %v", res, err)
	}
}
