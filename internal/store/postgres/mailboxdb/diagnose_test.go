package mailboxdb_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/store/postgres/mailboxdb"
	"godwit.dev/godwit/internal/store/postgres/pgtest"
	"godwit.dev/godwit/internal/testkit/testclock"
)

// TestLostStepsAreNamed checks that a copy counts as having lost its steps if it is pending and its row of steps is gone. Copies that have
// handed over all steps, are settled or never had steps have lost none.
func TestLostStepsAreNamed(t *testing.T) {
	t.Parallel()
	clock := testclock.New()
	cfg := mailboxdb.Config{URL: pgtest.URL(t), Schema: pgtest.Schema(t), Now: clock.Now}
	lost := func(want string, count int64) {
		t.Helper()
		if got, err := mailboxdb.FindLostSteps(t.Context(), cfg.URL, cfg.Schema); err != nil || got.String() != want || got.Count != count {
			t.Errorf("%d lost: %q, %v; want %d: %q", got.Count, got.String(), err, count, want)
		}
	}
	lost("", 0) // nothing is there yet
	s := open(t, cfg)
	lost("", 0)
	publish := func(id string, steps ...notification.Step) {
		t.Helper()
		a := &mailbox.Append{To: []string{"r"}, N: &notification.Notification{App: "app", ID: id, CreatedAt: clock.Now(), ExpiresAt: clock.Now().Add(100 * time.Hour), Steps: steps}}
		if err := s.Append(t.Context(), []*mailbox.Append{a}); err != nil {
			t.Fatal(err)
		}
	}
	step := notification.Step{Channel: "fcm", After: time.Second}
	publish("plain")
	for _, id := range []string{"u", "v", "w", "x", "y", "z", "acked"} {
		publish(id, step)
	}
	if err := s.Settle(t.Context(), []*mailbox.Settle{{App: "app", Recipient: "r", ID: "acked", As: notification.Acked, At: clock.Now()}}); err != nil {
		t.Fatal(err)
	}
	due, _, err := s.StepsDue(t.Context(), nil, clock.Now().Add(time.Second), 1)
	if err != nil || len(due) != 1 {
		t.Fatalf("due %v, %v", due, err)
	}
	done := mailbox.StepDone{Ref: mailbox.Ref{App: "app", Recipient: due[0].Recipient, Pos: due[0].Pos}}
	if err := s.HandedOver(t.Context(), []mailbox.StepDone{done}, clock.Now()); err != nil {
		t.Fatal(err)
	}
	lost("", 0)
	db, err := pgx.Connect(t.Context(), cfg.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(context.Background())
	for _, d := range []struct {
		where string
		want  string
		count int64
	}{
		{"pos = (SELECT min(pos) FROM " + cfg.Schema + ".escalation)", "u to r of app app", 1},
		{"true", "u to r of app app, v to r of app app, w to r of app app, x to r of app app, y to r of app app and 1 more", 6},
	} {
		if _, err := db.Exec(t.Context(), "DELETE FROM "+cfg.Schema+".escalation WHERE "+d.where); err != nil {
			t.Fatal(err)
		}
		lost(d.want, d.count)
	}
}
