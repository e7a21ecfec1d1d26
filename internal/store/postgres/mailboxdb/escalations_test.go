package mailboxdb_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/store/postgres/mailboxdb"
	"godwit.dev/godwit/internal/store/postgres/pgtest"
	"godwit.dev/godwit/internal/testkit/testclock"
)

// TestRowsOfStepsGoWithTheirCopies checks that a copy without steps has no row of them, and that no such row outlives its copy, whichever
// operation settled it.
func TestRowsOfStepsGoWithTheirCopies(t *testing.T) {
	t.Parallel()
	clock := testclock.New()
	cfg := mailboxdb.Config{URL: pgtest.URL(t), Schema: pgtest.Schema(t), Now: clock.Now}
	s := open(t, cfg)
	db, err := pgx.Connect(t.Context(), cfg.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(context.Background())
	want := func(rows int) {
		t.Helper()
		var n int
		if err := db.QueryRow(t.Context(), "SELECT count(*) FROM "+cfg.Schema+".escalation").Scan(&n); err != nil || n != rows {
			t.Errorf("%d rows, %v; want %d", n, err, rows)
		}
	}
	publish := func(id string, steps ...notification.Step) {
		t.Helper()
		a := &mailbox.Append{To: []string{"r", "s", "t"}, N: &notification.Notification{App: "app", ID: id, CreatedAt: clock.Now(), ExpiresAt: clock.Now().Add(100 * time.Hour), Steps: steps}}
		if err := s.Append(t.Context(), []*mailbox.Append{a}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 5 {
		publish(fmt.Sprint("plain", i))
	}
	want(0)
	publish("x", notification.Step{Channel: "fcm", After: time.Second})
	want(3)
	due, _, err := s.StepsDue(t.Context(), nil, clock.Now().Add(time.Second), 10)
	if err != nil || len(due) != 3 {
		t.Fatalf("due %v, %v", due, err)
	}
	// By position, as most acknowledgements are.
	one := &mailbox.Settle{App: "app", Recipient: due[0].Recipient, ID: "x", Pos: due[0].Pos, As: notification.Acked, At: clock.Now()}
	if err := s.Settle(t.Context(), []*mailbox.Settle{one}); err != nil || one.Outcome != mailbox.SettleDone {
		t.Fatalf("outcome %d, %v", one.Outcome, err)
	}
	want(2)
	// Servers of a version without steps delete copies like this.
	if _, err := db.Exec(t.Context(), "DELETE FROM "+cfg.Schema+".pending WHERE recipient = (SELECT min(recipient) FROM "+cfg.Schema+".escalation)"); err != nil {
		t.Fatal(err)
	}
	want(2)
	clock.Advance(3 * time.Hour)
	if due, _, err := s.StepsDue(t.Context(), nil, clock.Now(), 10); err != nil || len(due) != 1 {
		t.Errorf("due %v, %v; want that of the one that is open", due, err)
	}
	if err := s.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(1)
}
