package mailboxdb_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/store/sqlite/faultvfs"
	"godwit.dev/godwit/internal/store/sqlite/mailboxdb"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
	"godwit.dev/godwit/internal/testkit/eventually"
)

func publishOf(id string, size int, to ...string) *mailbox.Append {
	now := time.Now().Truncate(time.Millisecond)
	return &mailbox.Append{To: to, N: &notification.Notification{
		App: "app", ID: id, CreatedAt: now, ExpiresAt: now.Add(time.Hour),
		Content: notification.Content{Title: "T", Data: make([]byte, size), ContentType: "application/octet-stream"},
	}}
}

func ackOf(a *mailbox.Append) *mailbox.Settle {
	return &mailbox.Settle{App: "app", Recipient: a.To[0], ID: a.N.ID, As: notification.Acked, At: a.N.CreatedAt}
}

func TestPublishesQueuedWhileTheWriterIsBusyShareOneCommit(t *testing.T) {
	s := openAt(t, filepath.Join(t.TempDir(), "m.db"), config())
	release := s.Hold()
	before := s.Stats().Commits
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			a := publishOf(fmt.Sprint("n", i), 200, fmt.Sprint("r", i))
			if err := s.Append(t.Context(), []*mailbox.Append{a}); err != nil {
				t.Error(err)
			}
		})
	}
	for s.Stats().Queued < 200 {
		time.Sleep(time.Millisecond)
	}
	release()
	wg.Wait()
	if n := s.Stats().Commits - before; n != 2 {
		t.Errorf("%d commits, want the one that was held and one for all publishes", n)
	}
}

func TestRecipientsWithNothingPendingAreForgotten(t *testing.T) {
	cfg := config()
	cfg.MaxIdle = 10
	s := openAt(t, filepath.Join(t.TempDir(), "m.db"), cfg)
	for i := range 100 {
		a := publishOf(fmt.Sprint("n", i), 10, fmt.Sprint("r", i))
		if err := s.Append(t.Context(), []*mailbox.Append{a}); err != nil {
			t.Fatal(err)
		}
		if i%20 > 0 {
			settle(t, s, ackOf(a))
		}
	}
	if n, err := s.Known(); err != nil || n != 5+10 {
		t.Errorf("%d recipients in memory (%v), want the 5 for whom something waits and 10 others", n, err)
	}
}

func TestASoundStoreComplainsOfNothing(t *testing.T) {
	var log bytes.Buffer
	cfg := config()
	cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
	s, err := mailboxdb.Open(t.Context(), filepath.Join(t.TempDir(), "m.db"), cfg)
	if err != nil {
		t.Fatal(err)
	}
	a := publishOf("n", 10, "r")
	if err := s.Append(t.Context(), []*mailbox.Append{a}); err != nil {
		t.Fatal(err)
	}
	s.Seen([]mailbox.Seen{{App: "app", Recipient: "r", At: time.Now()}})
	settle(t, s, ackOf(a))
	if err := errors.Join(s.WriteNotes(), s.Close()); err != nil || log.Len() > 0 {
		t.Errorf("%v; it said %s", err, &log)
	}
}

func TestLogIsKeptShortOnANearlyFullDisk(t *testing.T) {
	dir := t.TempDir()
	cfg := config()
	cfg.MinFree = sqlitedb.Free(dir) / 2 // the disk is not full, but has less than four times the reserve left
	s := openAt(t, filepath.Join(dir, "m.db"), cfg)
	for i := range 40 {
		if err := s.Append(t.Context(), []*mailbox.Append{publishOf(fmt.Sprint("n", i), 64<<10, "r")}); err != nil {
			t.Fatal(err)
		}
		if n := s.Uncopied(); n > 700<<10 {
			t.Errorf("%d KB lie in the log alone", n>>10)
		}
	}
}

func TestEveryAnswerFollowsASync(t *testing.T) {
	vfs := faultvfs.New(t)
	cfg := config()
	cfg.VFS = vfs.Name()
	dir := t.TempDir()
	path := filepath.Join(dir, "m.db")
	s := openAt(t, path, cfg)
	for i := range 20 {
		before := vfs.Syncs()
		a := publishOf(fmt.Sprint("n", i), 200, "r")
		if err := s.Append(t.Context(), []*mailbox.Append{a}); err != nil {
			t.Fatal(err)
		}
		if vfs.Syncs() == before {
			t.Fatal("a publish was answered without a sync")
		}
		cut := filepath.Join(dir, fmt.Sprint("cut", i))
		if err := vfs.PowerCut(path, cut); err != nil {
			t.Fatal(err)
		}
		left := openAt(t, cut, config())
		if n := left.Stats().Pending; n != int64(i+1) {
			t.Fatalf("after a power cut %d of %d publishes are left", n, i+1)
		}
	}
}

func TestAFailedSyncEndsTheProgramAndAcknowledgesNothing(t *testing.T) {
	vfs := faultvfs.New(t)
	cfg := config()
	cfg.VFS = vfs.Name()
	var fatal atomic.Int32
	cfg.Fatal = func(error) { fatal.Add(1) }
	rec := &counter{}
	s, err := mailboxdb.Open(t.Context(), filepath.Join(t.TempDir(), "m.db"), cfg)
	if err != nil {
		t.Fatal(err)
	}
	s.Observe(rec)
	first := publishOf("a", 10, "r")
	if err := s.Append(t.Context(), []*mailbox.Append{first}); err != nil {
		t.Fatal(err)
	}
	vfs.FailSyncs(true)
	err = s.Append(t.Context(), []*mailbox.Append{publishOf("b", 10, "r")})
	var fe *sqlitedb.FatalError
	if !errors.As(err, &fe) {
		t.Errorf("append: %v, want a fatal error", err)
	}
	vfs.FailSyncs(false) // the next sync would succeed, but earlier writes may be lost all the same
	if err := s.Append(t.Context(), []*mailbox.Append{publishOf("c", 10, "r")}); !errors.As(err, &fe) {
		t.Errorf("append after the failure: %v, want the fatal error again", err)
	}
	if err := s.Settle(t.Context(), []*mailbox.Settle{ackOf(first)}); !errors.As(err, &fe) {
		t.Errorf("settle after the failure: %v, want the fatal error", err)
	}
	if fatal.Load() != 1 {
		t.Errorf("the program was told %d times, want once", fatal.Load())
	}
	if n := rec.stored.Load(); n != 1 {
		t.Errorf("the observer was told of %d, want the first alone", n)
	}
	_ = s.Close()
}

// counter counts the observer's calls.
type counter struct{ stored, settled atomic.Int64 }

func (c *counter) Committed(b *mailbox.Batch) {
	c.stored.Add(int64(len(b.Stored)))
	c.settled.Add(int64(len(b.Settled)))
}

func TestAFullDiskRefusesPublishesTakesAcksAndHeals(t *testing.T) {
	vfs := faultvfs.New(t)
	cfg := config()
	cfg.VFS, cfg.Ballast = vfs.Name(), 4<<20
	path := filepath.Join(t.TempDir(), "m.db")
	s := openAt(t, path, cfg)
	if info, err := os.Stat(path + "-ballast"); err != nil || info.Size() != cfg.Ballast {
		t.Fatalf("the ballast: %v, %v", info, err)
	}
	vfs.Ballast(path+"-ballast", cfg.Ballast)
	var open []*mailbox.Append
	list := publishOf("list", 100, "keeper")
	for i := range 300 {
		list.To = append(list.To, fmt.Sprint("r", i))
	}
	if err := s.Append(t.Context(), []*mailbox.Append{list}); err != nil {
		t.Fatal(err)
	}
	for i := range 300 {
		a := publishOf(fmt.Sprint("n", i), 4000, fmt.Sprint("r", i))
		if err := s.Append(t.Context(), []*mailbox.Append{a}); err != nil {
			t.Fatal(err)
		}
		open = append(open, a)
	}
	for { // until a checkpoint has copied the log into the file
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() > 300*4000 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	vfs.Leave(0)
	refused, more := 0, int64(0)
	for i := 0; refused == 0 && i < 3000; i++ {
		more++
		err := s.Append(t.Context(), []*mailbox.Append{publishOf(fmt.Sprint("more", i), 4000, "r")})
		if err != nil {
			if !errors.Is(err, mailbox.ErrNoSpace) {
				t.Fatalf("append on a full disk: %v, want ErrNoSpace", err)
			}
			refused++
			more--
		}
	}
	if refused == 0 {
		t.Fatal("a full disk took 12 MB")
	}
	later := make([]*mailbox.Settle, 0, 200)
	for i, a := range open {
		q := ackOf(a)
		ofList := *q
		ofList.ID = "list"
		if i < 100 {
			later = append(later, q, &ofList)
			continue
		}
		if err := s.Settle(t.Context(), []*mailbox.Settle{q, &ofList}); err != nil || q.Outcome != mailbox.SettleDone {
			t.Fatalf("ack %d on a full disk: %v, outcome %d", i, err, q.Outcome)
		}
		if i == 110 {
			// Pages that are not in the file yet could need space that no log can give, and the ballast may be too small for them.
			vfs.Leave(16 << 20)
			eventually.True(t, "the log being copied", func() bool { return s.Uncopied() == 0 })
			vfs.Leave(0) // the ballast's space is used up, too: from here on the log's own space is used again and again
		}
	}
	s.SettleLater(later)
	// The real disk is not full, so the ballast may exist again by now.
	if !vfs.BallastGiven() {
		t.Error("the ballast was kept on a full disk")
	}
	vfs.Leave(-1)
	deadline := time.Now().Add(2 * time.Minute)
	for err := s.Append(t.Context(), []*mailbox.Append{publishOf("healed", 10, "x")}); err != nil; err = s.Append(t.Context(), []*mailbox.Append{publishOf("healed", 10, "x")}) {
		if time.Now().After(deadline) {
			t.Fatalf("still refused with space back: %v", err)
		}
		time.Sleep(20 * time.Millisecond)
	}
	for s.Stats().Pending > more+2 {
		if time.Now().After(deadline) {
			t.Fatalf("%d pending, the late acks were lost", s.Stats().Pending)
		}
		time.Sleep(20 * time.Millisecond)
	}
	res, err := s.Pending(t.Context(), []mailbox.PendingQuery{{App: "app", Recipient: "keeper"}})
	if err != nil || len(res[0].Items) != 1 || len(res[0].Items[0].N.Content.Data) != 100 {
		t.Errorf("the copy nobody acknowledged: %+v, %v", res, err)
	}
	for _, a := range open {
		recs, err := s.Lookup(t.Context(), "app", a.N.ID, a.To[0])
		if err != nil || recs[0].Status != notification.Acked {
			t.Fatalf("%s: %+v, %v; want it acked", a.N.ID, recs, err)
		}
	}
}

func TestContentsGoWithTheirLastCopy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.db")
	s := openAt(t, path, config())
	want := func(n int) {
		t.Helper()
		if got, err := s.Contents(t.Context()); err != nil || got != n {
			t.Fatalf("%d contents, %v; want %d", got, err, n)
		}
	}
	list, single := publishOf("list", 100, "a", "b", "c"), publishOf("single", 100, "a")
	if err := s.Append(t.Context(), []*mailbox.Append{list, single}); err != nil {
		t.Fatal(err)
	}
	want(2)
	settle := func(to, id string) {
		t.Helper()
		q := &mailbox.Settle{App: "app", Recipient: to, ID: id, As: notification.Acked, At: time.Now()}
		if err := s.Settle(t.Context(), []*mailbox.Settle{q}); err != nil || q.Outcome != mailbox.SettleDone {
			t.Fatalf("settle %s of %s: %v, outcome %d", id, to, err, q.Outcome)
		}
	}
	settle("a", "list")
	settle("a", "single")
	want(1)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openAt(t, path, config())
	settle("c", "list")
	want(1)
	if err := s.Erase(t.Context(), "app", "b"); err != nil {
		t.Fatal(err)
	}
	want(0)
}

// The index stores 32 bits of the hash of an app and an id. Rows of two apps with the same bits must still be distinguished.
func TestAppsWhoseIdsHashAlikeNeverMeet(t *testing.T) {
	apps := map[uint32]string{}
	one, other := "", ""
	for i := 0; other == ""; i++ {
		app := fmt.Sprint("app-", i)
		h := mailboxdb.IDHash(app, "id")
		if one = apps[h]; one != "" {
			other = app
		}
		apps[h] = app
	}
	s := openAt(t, filepath.Join(t.TempDir(), "m.db"), config())
	for _, app := range []string{one, other} {
		a := publishOf("id", 10, "r", app)
		a.N.App = app
		if err := s.Append(t.Context(), []*mailbox.Append{a}); err != nil {
			t.Fatal(err)
		}
	}
	for _, app := range []string{one, other} {
		recs, err := s.Lookup(t.Context(), app, "id", "")
		if err != nil || len(recs) != 2 || recs[0].To != "r" || recs[1].To != app {
			t.Errorf("%s sees %+v, %v", app, recs, err)
		}
		for _, to := range recs {
			if _, err := s.Lookup(t.Context(), app, "id", to.To); err != nil {
				t.Error(err)
			}
		}
	}
}

// After the index has returned a copy and before the copy is read, it may be settled, and it may become due.
func TestCopySettledAfterIndexReadIsNotDelivered(t *testing.T) {
	s, now := openAt(t, filepath.Join(t.TempDir(), "m.db"), config()), time.Now()
	open, settled, later := publishOf("open", 10, "r"), publishOf("settled", 10, "r", "keeper"), publishOf("later", 10, "r")
	later.N.SendAt = now.Add(time.Hour)
	if err := s.Append(t.Context(), []*mailbox.Append{open, settled, later}); err != nil {
		t.Fatal(err)
	}
	if q := ackOf(settled); s.Settle(t.Context(), []*mailbox.Settle{q}) != nil || q.Outcome != mailbox.SettleDone {
		t.Fatalf("settle: outcome %d", q.Outcome)
	}
	for _, c := range []struct {
		id   string
		at   time.Time
		want bool
	}{{"open", now, true}, {"open", open.N.ExpiresAt, false}, {"settled", now, false}, {"later", now, false}} {
		recs, err := s.Lookup(t.Context(), "app", c.id, "r")
		if err != nil {
			t.Fatal(err)
		}
		item, err := s.Read(t.Context(), recs[0].Pos, "app", "r", c.at)
		if err != nil || (item != nil) != c.want {
			t.Errorf("%s at %s: %+v, %v", c.id, c.at, item, err)
		}
	}
}

func TestAcksThatAFullDiskDelaysAreKeptUpToABound(t *testing.T) {
	s := openAt(t, filepath.Join(t.TempDir(), "m.db"), config())
	a := publishOf("id", 10, "r")
	if err := s.Append(t.Context(), []*mailbox.Append{a}); err != nil {
		t.Fatal(err)
	}
	if n := s.SettleAgain([]*mailbox.Settle{ackOf(a)}); n != 1 {
		t.Errorf("%d kept, want the one", n)
	}
	if n := s.SettleAgain(make([]*mailbox.Settle, mailboxdb.MaxRetried)); n != 1 {
		t.Errorf("%d kept beyond the bound of %d", n, mailboxdb.MaxRetried)
	}
	s.RetrySettles()
	if err := s.Settle(t.Context(), nil); err != nil { // behind it in the queue
		t.Fatal(err)
	}
	for s.Stats().Pending > 0 { // ends with the test's patience
		time.Sleep(time.Millisecond)
	}
	if n := s.SettleAgain(nil); n != 0 {
		t.Errorf("%d are kept after they were handed over", n)
	}
}
