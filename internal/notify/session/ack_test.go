package session

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"godwit.dev/godwit/internal/notify/frame"
	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
)

func toAll(n *notification.Notification) { n.Ack = notification.AckAll }

func TestAcknowledgementsFindTheOtherDevicesWithTheSessionUnlocked(t *testing.T) {
	inWorld(t, func(w *world) {
		phone, tablet := w.connect(frame.Hello{Recipient: "anna", Device: "phone"}), w.connect(frame.Hello{Recipient: "anna"})
		w.publish("anna", "n1", toAll)
		w.publish("anna", "n2")
		var online [][]string
		w.mail.settled = func(batch []*mailbox.Settle) {
			for _, c := range []*wire{phone, tablet} {
				free := c.s.mu.TryLock()
				for range 3 { // another goroutine may hold the lock for a moment; the one that routes keeps it all the time
					if !free {
						time.Sleep(time.Millisecond)
						free = c.s.mu.TryLock()
					}
				}
				if !free {
					t.Error("a session is locked while what it acknowledges is handed to the store")
					continue
				}
				c.s.mu.Unlock()
			}
			for _, st := range batch {
				slices.Sort(st.Online)
				online = append(online, st.Online)
			}
		}
		both := []string{"phone", tablet.s.name()}
		const looks = 10 * time.Millisecond // time for the attempts above to lock the sessions
		phone.ack("n1", "n2", "unknown")
		time.Sleep(looks)
		synctest.Wait()
		if len(online) != 3 || !slices.Equal(online[0], both) || len(online[1]) != 0 || !slices.Equal(online[2], both) {
			t.Errorf("the store was told of %q; it needs the devices %q where all must acknowledge, or nobody knows", online, both)
		}
		online = nil
		w.publish("anna", "n3", toAll)
		tablet.s.Closed()
		time.Sleep(looks)
		synctest.Wait()
		if len(online) != 1 || !slices.Equal(online[0], []string{"phone"}) {
			t.Errorf("after a nameless session the store was told of %q, want the phone alone for n3", online)
		}
	})
}
