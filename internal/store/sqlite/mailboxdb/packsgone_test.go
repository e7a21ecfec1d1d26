package mailboxdb_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
)

// A pending copy that gets a row while its neighbours are pruned stays.
func TestACopyThatLeavesItsPackMeanwhileIsNotPruned(t *testing.T) {
	now := time.Now().Truncate(time.Millisecond)
	cfg := config()
	cfg.Now = func() time.Time { return now }
	path := filepath.Join(t.TempDir(), "m.db")
	s := openAt(t, path, cfg)
	publish(t, s, "before", "lone", now)
	many := toMany(t, s, "n", 3, now.Add(-2*time.Hour))
	for _, to := range many.To {
		settle(t, s, &mailbox.Settle{App: "app", Recipient: to, ID: "n", As: notification.Acked, At: now.Add(-90 * time.Minute)})
	}
	waits := &mailbox.Append{To: []string{"a", "b", "c"}, N: &notification.Notification{App: "app", ID: "waits", CreatedAt: now.Add(-2 * time.Hour), ExpiresAt: now.Add(time.Hour)}}
	if err := s.Append(t.Context(), []*mailbox.Append{waits}); err != nil {
		t.Fatal(err)
	}
	publish(t, s, "after", "lone", now)
	for _, to := range []string{"before", "after"} {
		settle(t, s, &mailbox.Settle{App: "app", Recipient: to, ID: "lone", As: notification.Acked, At: now.Add(-90 * time.Minute)})
	}
	recs, err := s.Lookup(t.Context(), "app", "waits", "b")
	if err != nil {
		t.Fatal(err)
	}
	err = s.PruneAround(t.Context(), now.Add(-time.Hour), func() {
		s.Mark([]mailbox.Mark{{App: "app", Recipient: "b", ID: "waits", Pos: recs[0].Pos, Attempts: 1, DeliveredAt: now}})
		if err := s.WriteNotes(); err != nil {
			t.Fatal(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := s.Rows(t.Context()); err != nil || n != 3 {
		t.Errorf("%d copies are left, %v; want those that wait", n, err)
	}
	if recs, err = s.Lookup(t.Context(), "app", "waits", "b"); err != nil || recs[0].Status != notification.Delivered {
		t.Errorf("%+v, %v", recs, err)
	}
	res, err := s.Pending(t.Context(), []mailbox.PendingQuery{{App: "app", Recipient: "b"}})
	if err != nil || len(res[0].Items) != 1 {
		t.Errorf("what waits: %+v, %v", res, err)
	}
}

// After an erasure packs hold nothing of the erased recipient, whether its copies were still in them or had left them, and keep
// the copies of other recipients.
func TestPacksForgetWhoIsErased(t *testing.T) {
	for _, bits := range []uint{16, 3} { // copies are found in the index in memory, or in sealed slices
		t.Run(fmt.Sprint(bits), func(t *testing.T) {
			now := time.Now().Truncate(time.Millisecond)
			cfg := config()
			cfg.SmallSlices(bits)
			path := filepath.Join(t.TempDir(), "m.db")
			s := openAt(t, path, cfg)
			for _, id := range []string{"m", "n"} {
				toMany(t, s, id, 16, now)
			}
			for i := range 16 { // settles most copies, since pending ones leave their pack when it is sealed
				if i == 1 || i == 2 {
					continue
				}
				settle(t, s, &mailbox.Settle{App: "app", Recipient: fmt.Sprint("r", i), ID: "n", As: notification.Acked, At: now})
			}
			publish(t, s, "r1", "lone", now)
			if bits < 16 {
				untilSealed(t, s, 4)
			}
			before, err := s.PackedKeys(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			numbers := []uint32{1, 2, 3, 8, 9, 15} // recipients get numbers in the order of their creation
			erased := make(map[string]bool, len(numbers))
			for _, number := range numbers {
				erased[fmt.Sprint("r", number-1)] = true
			}
			for to := range erased {
				if err := s.Erase(t.Context(), "app", to); err != nil {
					t.Fatal(err)
				}
			}
			keys, err := s.PackedKeys(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, number := range numbers {
				if keys[number] > 0 {
					t.Errorf("recipient %d is erased, and has %d copies in packs, of %d", number, keys[number], before[number])
				}
			}
			// Sealing removes copies from packs meanwhile. Without sealing, packs still have all other recipients.
			if gone := len(before) - len(keys); bits == 16 && gone != len(erased) {
				t.Errorf("packs have forgotten %d of %d recipients, want %d: %v", gone, len(before), len(erased), keys)
			}
			check := func(when string) {
				t.Helper()
				for i := range 16 {
					to := fmt.Sprint("r", i)
					list, _, err := s.History(t.Context(), "app", to, 0, 10, 0)
					switch {
					case err != nil:
						t.Fatal(err)
					case erased[to]:
						if len(list) != 0 {
							t.Errorf("%s: who is erased has %+v", when, list)
						}
					case len(list) != 2 || list[0].ID != "n" || list[0].Seq != 2 || list[0].Status != notification.Acked || list[1].ID != "m" || list[1].Status != notification.Stored:
						t.Errorf("%s: %s has %+v", when, to, list)
					}
				}
			}
			check("at once")
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = openAt(t, path, cfg)
			check("after a restart")
			if more := toMany(t, s, "o", 16, now); more.Results[0].Err != nil {
				t.Error(more.Results[0].Err)
			}
			if list, _, err := s.History(t.Context(), "app", "r0", 0, 10, 0); err != nil || len(list) != 1 || list[0].Seq != 1 {
				t.Errorf("who is erased begins anew with %+v, %v", list, err)
			}
			if list, _, err := s.History(t.Context(), "app", "r3", 0, 1, 0); err != nil || len(list) != 1 || list[0].Seq != 3 {
				t.Errorf("who is not goes on with %+v, %v", list, err)
			}
		})
	}
}
