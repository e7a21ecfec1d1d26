package mailboxdb_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/store/sqlite/faultvfs"
	"godwit.dev/godwit/internal/store/sqlite/mailboxdb"
)

func wantEscalating(t *testing.T, s *mailboxdb.Store, rows, plans, waiting int) {
	t.Helper()
	r, p, w, err := s.Escalating(t.Context())
	if err != nil || r != rows || p != plans || w != waiting {
		t.Errorf("%d rows, %d plans, %d in memory, %v; want %d, %d, %d", r, p, w, err, rows, plans, waiting)
	}
}

func TestNotificationWithoutStepsCostsNoStepRows(t *testing.T) {
	if mailboxdb.EntryBytes != 24 {
		t.Errorf("a pending copy takes %d bytes, want 24", mailboxdb.EntryBytes)
	}
	s := openAt(t, t.TempDir()+"/mailbox.db", config())
	now := time.Now()
	for i := range 20 {
		a := &mailbox.Append{To: []string{"r", "s"}, N: &notification.Notification{App: "app", ID: fmt.Sprint("n", i), CreatedAt: now, ExpiresAt: now.Add(time.Hour)}}
		if err := s.Append(t.Context(), []*mailbox.Append{a}); err != nil {
			t.Fatal(err)
		}
	}
	wantEscalating(t, s, 0, 0, 0)
}

func TestRowsAndPlansGoWithTheirCopies(t *testing.T) {
	s := openAt(t, t.TempDir()+"/mailbox.db", config())
	now := time.Now()
	plan := []notification.Step{{Channel: "fcm", After: time.Second}}
	a := &mailbox.Append{To: []string{"r", "s", "t"}, N: &notification.Notification{App: "app", ID: "x", CreatedAt: now, ExpiresAt: now.Add(time.Hour), Steps: plan}}
	if err := s.Append(t.Context(), []*mailbox.Append{a}); err != nil {
		t.Fatal(err)
	}
	wantEscalating(t, s, 3, 1, 3)
	due, next, err := s.StepsDue(t.Context(), nil, now.Add(time.Second), 2)
	if err != nil || len(due) != 2 || next.IsZero() {
		t.Fatalf("due %v, next %s, %v", due, next, err)
	}
	var done []mailbox.StepDone
	for _, d := range due {
		done = append(done, mailbox.StepDone{Ref: mailbox.Ref{App: d.App, Recipient: d.Recipient, Pos: d.Pos}})
	}
	if err := s.HandedOver(t.Context(), done, now); err != nil {
		t.Fatal(err)
	}
	wantEscalating(t, s, 3, 1, 1)
	for i, to := range a.To {
		if err := s.Settle(t.Context(), []*mailbox.Settle{{App: "app", Recipient: to, ID: "x", As: notification.Acked, At: now}}); err != nil {
			t.Fatal(err)
		}
		if i < 2 {
			wantEscalating(t, s, 2-i, 1, 1)
		}
	}
	if due, next, err := s.StepsDue(t.Context(), nil, now.Add(time.Second), 2); err != nil || len(due) != 0 || !next.IsZero() {
		t.Fatalf("due %v, next %s, %v", due, next, err)
	}
	wantEscalating(t, s, 0, 0, 0)
}

// A settle and a query of due steps share a transaction that fails: the copy is open again, and its step is still due.
func TestStepReturnsWhenItsEndWasNotStored(t *testing.T) {
	vfs := faultvfs.New(t)
	cfg := config()
	cfg.VFS = vfs.Name()
	s := openAt(t, t.TempDir()+"/mailbox.db", cfg)
	a := publishOf("x", 10, "r")
	a.N.Steps = []notification.Step{{Channel: "fcm", After: time.Second}}
	if err := s.Append(t.Context(), []*mailbox.Append{a}); err != nil {
		t.Fatal(err)
	}
	at := a.N.CreatedAt.Add(time.Second)
	release := s.Hold()
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := s.Settle(t.Context(), []*mailbox.Settle{ackOf(a)}); err == nil {
			t.Error("it was settled on a full disk")
		}
	})
	wg.Go(func() { _, _, _ = s.StepsDue(t.Context(), nil, at, 10) })
	for s.Stats().Queued < 2 {
		time.Sleep(time.Millisecond)
	}
	vfs.FailWrites(true)
	release()
	wg.Wait()
	vfs.FailWrites(false)
	if due, _, err := s.StepsDue(t.Context(), nil, at, 10); err != nil || len(due) != 1 {
		t.Errorf("steps due %v, %v; want that of x", due, err)
	}
}

// Steps and copies are read back in the order of positions, side by side.
func TestStepsAreReadBackWithTheirCopies(t *testing.T) {
	path := t.TempDir() + "/mailbox.db"
	first, err := mailboxdb.Open(t.Context(), path, config())
	if err != nil {
		t.Fatal(err)
	}
	var all []*mailbox.Append
	steps, later := []notification.Step{{Channel: "fcm", After: time.Second}}, time.Hour/2
	for i, kind := range []string{"plain", "steps", "scheduled", "acked", "steps", "plain", "handed", "steps", "plain"} {
		a := publishOf(fmt.Sprint(kind, i), 10, "r", "s")
		if kind != "plain" {
			a.N.Steps = steps
		}
		if kind == "scheduled" {
			a.N.SendAt = a.N.CreatedAt.Add(later)
		}
		if err := first.Append(t.Context(), []*mailbox.Append{a}); err != nil {
			t.Fatal(err)
		}
		all = append(all, a)
	}
	if err := first.Settle(t.Context(), []*mailbox.Settle{ackOf(all[3])}); err != nil { // acknowledges the copy of one of the two recipients
		t.Fatal(err)
	}
	now := all[8].N.CreatedAt.Add(time.Second)
	due, _, err := first.StepsDue(t.Context(), nil, now, 100)
	if err != nil || len(due) != 9 { // 3 × 2 steps, 1 acked, 2 handed
		t.Fatalf("%d steps due, %v", len(due), err)
	}
	for _, d := range due {
		if d.ID == all[6].N.ID {
			err := first.HandedOver(t.Context(), []mailbox.StepDone{{Ref: mailbox.Ref{App: d.App, Recipient: d.Recipient, Pos: d.Pos}}}, now)
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	wantEscalating(t, first, 11, 6, 9) // steps of scheduled notifications count too
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	s := openAt(t, path, config())
	wantEscalating(t, s, 11, 6, 9)
	due, _, err = s.StepsDue(t.Context(), nil, now, 100)
	got := make(map[string]int)
	for _, d := range due {
		got[d.ID]++
	}
	if want := map[string]int{"steps1": 2, "acked3": 1, "steps4": 2, "steps7": 2}; err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("steps due %v, %v; want %v", got, err, want)
	}
	for _, a := range all {
		for _, to := range a.To {
			if err := s.Settle(t.Context(), []*mailbox.Settle{{App: "app", Recipient: to, ID: a.N.ID, As: notification.Recalled, At: now}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if due, _, err := s.StepsDue(t.Context(), nil, now.Add(later), 100); err != nil || len(due) != 0 {
		t.Errorf("steps due %v, %v although all is settled", due, err)
	}
	wantEscalating(t, s, 0, 0, 0)
}
