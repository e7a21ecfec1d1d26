package store_test

import (
	"fmt"
	"testing"
	"time"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/store"
)

// TestLostSettlingIsSaidAndLosesNothing: all pending copies are still there. Settled copies whose outcome is lost are not delivered again.
// Only for notifications with another pending copy is it unknown which copies had ended.
func TestLostSettlingIsSaidAndLosesNothing(t *testing.T) {
	const waiting, ended = 7, 12
	dir := made(t)
	inStore(t, dir, func(s *store.Stores) {
		now := s.Clock()
		for i := range waiting + ended {
			n := &notification.Notification{App: "demo", ID: fmt.Sprint("n", i), CreatedAt: now, ExpiresAt: now.Add(time.Hour), Content: notification.Content{Title: "T"}}
			to := []string{"rider"}
			if i == 0 {
				to = append(to, "driver")
			}
			if err := s.Mailbox.Append(t.Context(), []*mailbox.Append{{N: n, To: to}}); err != nil {
				t.Fatal(err)
			}
			if i > 0 && i < waiting {
				continue
			}
			q := &mailbox.Settle{App: "demo", Recipient: "rider", ID: n.ID, As: notification.Acked, At: now}
			if err := s.Mailbox.Settle(t.Context(), []*mailbox.Settle{q}); err != nil || q.Outcome != mailbox.SettleDone {
				t.Fatalf("outcome %d, %v", q.Outcome, err)
			}
		}
	})
	r := lose(t, dir, store.MailboxFile, "settlement")
	said := map[string]int64{}
	for _, f := range r.Files {
		if len(f.Counts) > 0 {
			t.Errorf("it counts losses: %+v", f)
		}
		for _, l := range f.Lost {
			said[l.What] = l.Rows
		}
	}
	if len(said) != 2 || said["how notifications ended: they are called expired"] != ended || said["whether notifications had ended: they are delivered once more"] != waiting+1 {
		t.Errorf("it says %v", said)
	}
	inStore(t, dir, func(s *store.Stores) {
		res, err := s.Mailbox.Pending(t.Context(), []mailbox.PendingQuery{{App: "demo", Recipient: "rider"}, {App: "demo", Recipient: "driver"}})
		if err != nil || len(res[0].Items) != waiting || len(res[1].Items) != 1 {
			t.Errorf("%+v, %v", res, err)
		}
		recs, err := s.Mailbox.Lookup(t.Context(), "demo", "n10", "rider")
		if err != nil || recs[0].Status != notification.Expired {
			t.Errorf("%+v, %v", recs, err)
		}
	})
}
