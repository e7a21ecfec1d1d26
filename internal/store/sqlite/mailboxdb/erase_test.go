package mailboxdb_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/store/sqlite/faultvfs"
	"godwit.dev/godwit/internal/store/sqlite/mailboxdb"
)

// Other publishes run between the slices, whether the erased copies were pending or settled.
func TestErasingMuchIsDoneInSlices(t *testing.T) {
	const rows, slice = 5000, 250
	for name, settled := range map[string]bool{"pending": false, "settled": true} {
		t.Run(name, func(t *testing.T) {
			cfg := config()
			cfg.MaxPending = rows
			s := openAt(t, filepath.Join(t.TempDir(), "mailbox.db"), cfg)
			fill(t, s, rows, settled)
			before := s.Stats().Commits
			if err := s.Erase(t.Context(), "app", "r"); err != nil {
				t.Fatal(err)
			}
			if n := s.Stats().Commits - before; n < rows/slice {
				t.Errorf("%d rows were erased with %d commits, want one for each %d", rows, n, slice)
			}
			if list, _, err := s.History(t.Context(), "app", "r", 0, 10, 0); err != nil || len(list) != 0 {
				t.Errorf("history %v, %v", list, err)
			}
			wantNothing(t, s)
		})
	}
}

func TestAnInterruptedErasureIsEndedAtStart(t *testing.T) {
	for name, settled := range map[string]bool{"pending": false, "settled": true} {
		for _, bits := range []uint{16, 5} { // rows are found in the index in memory, or in sealed slices
			t.Run(fmt.Sprint(name, bits), func(t *testing.T) {
				cfg := config()
				cfg.MaxPending = 1000
				cfg.SmallSlices(bits)
				vfs := faultvfs.New(t)
				cfg.VFS = vfs.Name()
				dir := t.TempDir()
				path, copied := filepath.Join(dir, "mailbox.db"), filepath.Join(dir, "copied.db")
				s := openAt(t, path, cfg)
				fill(t, s, 1000, settled)
				n := &notification.Notification{App: "app", ID: "shared", CreatedAt: time.Now(), ExpiresAt: time.Now().Add(time.Hour)}
				if err := s.Append(t.Context(), []*mailbox.Append{{N: n, To: []string{"r2", "other"}}}); err != nil {
					t.Fatal(err)
				}
				if err := s.EraseBegun(t.Context(), "app", "r", 300); err != nil {
					t.Fatal(err)
				}
				if err := s.EraseBegun(t.Context(), "app", "r2", 0); err != nil {
					t.Fatal(err)
				}
				if err := vfs.PowerCut(path, copied); err != nil {
					t.Fatal(err)
				}
				again := openAt(t, copied, cfg)
				for {
					if n, err := again.Erasing(t.Context()); err != nil {
						t.Fatal(err)
					} else if n == 0 {
						break
					}
					time.Sleep(time.Millisecond)
				}
				if n, err := again.Rows(t.Context()); err != nil || n != 1 {
					t.Errorf("%d rows are left, %v; want the other's", n, err)
				}
				res, err := again.Pending(t.Context(), []mailbox.PendingQuery{{App: "app", Recipient: "other"}})
				if err != nil || len(res[0].Items) != 1 {
					t.Fatalf("the other has %+v, %v", res, err)
				}
				settle(t, again, &mailbox.Settle{App: "app", Recipient: "other", ID: "shared", As: notification.Acked, At: time.Now()})
				if n, err := again.Contents(t.Context()); err != nil || n != 0 {
					t.Errorf("%d contents are left, %v", n, err)
				}
			})
		}
	}
}

func wantNothing(t *testing.T, s *mailboxdb.Store) {
	t.Helper()
	for what, count := range map[string]func(context.Context) (int, error){"rows": s.Rows, "contents": s.Contents, "erasures": s.Erasing} {
		if n, err := count(t.Context()); err != nil || n != 0 {
			t.Errorf("%d %s are left, %v", n, what, err)
		}
	}
	if st := s.Stats(); st.Pending+st.Scheduled != 0 {
		t.Errorf("stats %+v", st)
	}
}

func TestNacksGoWithTheirRows(t *testing.T) {
	s := openAt(t, filepath.Join(t.TempDir(), "mailbox.db"), config())
	now := time.Now()
	nack := func(to string) {
		t.Helper()
		publish(t, s, to, "n", now)
		for range notification.MaxNacks - 1 {
			settle(t, s, &mailbox.Settle{App: "app", Recipient: to, ID: "n", As: notification.Failed, Nack: true, Reason: "x", At: now})
		}
	}
	want := func(n int, when string) {
		t.Helper()
		if got, err := s.Nacked(t.Context()); err != nil || got != n {
			t.Errorf("%s: %d copies with nacks, %v; want %d", when, got, err, n)
		}
	}
	nack("pending")
	nack("settled")
	nack("old")
	settle(t, s, &mailbox.Settle{App: "app", Recipient: "settled", ID: "n", As: notification.Acked, At: now})
	settle(t, s, &mailbox.Settle{App: "app", Recipient: "old", ID: "n", As: notification.Failed, Nack: true, Reason: "x", At: now.Add(-time.Hour)})
	want(3, "before")
	for more := true; more; {
		var err error
		if more, err = s.Prune(t.Context(), now.Add(-time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	want(2, "after the old one was pruned")
	for _, to := range []string{"pending", "settled"} {
		if err := s.Erase(t.Context(), "app", to); err != nil {
			t.Fatal(err)
		}
	}
	want(0, "after erasing")
}

func publish(t *testing.T, s *mailboxdb.Store, to, id string, now time.Time) {
	t.Helper()
	n := &notification.Notification{App: "app", ID: id, CreatedAt: now.Add(-2 * time.Hour), ExpiresAt: now.Add(time.Hour)}
	if err := s.Append(t.Context(), []*mailbox.Append{{N: n, To: []string{to}, Results: make([]mailbox.AppendResult, 1)}}); err != nil {
		t.Fatal(err)
	}
}

func settle(t *testing.T, s *mailboxdb.Store, q *mailbox.Settle) {
	t.Helper()
	if err := s.Settle(t.Context(), []*mailbox.Settle{q}); err != nil || q.Outcome == mailbox.SettleUnknown {
		t.Fatal(err, q.Outcome)
	}
}

// fill publishes to r.
func fill(t *testing.T, s *mailboxdb.Store, rows int, settled bool) {
	t.Helper()
	now := time.Now()
	for i := 0; i < rows; i += 1000 {
		var batch []*mailbox.Append
		var acks []*mailbox.Settle
		for k := range 1000 {
			n := &notification.Notification{App: "app", ID: fmt.Sprint(i + k), CreatedAt: now, ExpiresAt: now.Add(time.Hour)}
			batch = append(batch, &mailbox.Append{N: n, To: []string{"r"}, Results: make([]mailbox.AppendResult, 1)})
			acks = append(acks, &mailbox.Settle{App: "app", Recipient: "r", ID: n.ID, As: notification.Acked, At: now})
		}
		if err := s.Append(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
		if !settled {
			continue
		}
		if err := s.Settle(t.Context(), acks); err != nil {
			t.Fatal(err)
		}
	}
}
