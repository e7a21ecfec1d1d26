package mailboxdb_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/store/postgres/mailboxdb"
	"godwit.dev/godwit/internal/store/postgres/pgtest"
	"godwit.dev/godwit/internal/store/storetest"
	"godwit.dev/godwit/internal/testkit/testclock"
)

// TestSightingOfAnotherNodeBringsNoErasedNameBack: nodes write sightings a second late. One from after the erasure counts.
func TestSightingOfAnotherNodeBringsNoErasedNameBack(t *testing.T) {
	for name, known := range map[string]bool{"known before": true, "seen for the first time": false} {
		t.Run(name, func(t *testing.T) {
			clock := testclock.New()
			cfg := mailboxdb.Config{URL: pgtest.URL(t), Schema: pgtest.Schema(t), Now: clock.Now}
			a, b := open(t, cfg), open(t, cfg)
			if known {
				publish(t, a, note(clock.Now(), "n"), "r")
			}
			sees := func(recipient string) (write func()) {
				b.Seen([]mailbox.Seen{{App: storetest.App, Recipient: recipient, Device: "phone", At: clock.Now()}})
				return b.HoldNotes()
			}
			of, other := sees("r"), sees("another")
			clock.Advance(time.Millisecond)
			if err := a.Erase(t.Context(), storetest.App, "r"); err != nil && (known || !errors.Is(err, mailbox.ErrNotFound)) {
				t.Fatal(err)
			}
			of()
			other()
			for _, s := range []*mailboxdb.Store{a, b} {
				if info, err := s.Recipient(t.Context(), storetest.App, "r"); !errors.Is(err, mailbox.ErrNotFound) {
					t.Errorf("the erased recipient is there: %+v, %v", info, err)
				}
				if _, err := s.Recipient(t.Context(), storetest.App, "another"); err != nil {
					t.Errorf("another recipient is not: %v", err)
				}
			}
			clock.Advance(time.Millisecond)
			sees("r")()
			if info, err := a.Recipient(t.Context(), storetest.App, "r"); err != nil || !slices.Equal(info.Devices, []string{"phone"}) {
				t.Errorf("after it came back: %+v, %v", info, err)
			}
		})
	}
}
