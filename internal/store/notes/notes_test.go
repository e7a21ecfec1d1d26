package notes_test

import (
	"slices"
	"testing"
	"time"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/store/notes"
)

const app, to = "shop", "ann"

func at(ms int64) time.Time { return time.UnixMilli(ms) }

func TestTheFirstDeliveryAndTheMostAttemptsCount(t *testing.T) {
	var n notes.Notes
	n.Mark([]mailbox.Mark{
		{App: app, Recipient: to, Pos: 7, Attempts: 1},
		{App: app, Recipient: to, Pos: 7, Attempts: 3, DeliveredAt: at(20)},
		{App: app, Recipient: to, Pos: 7, Attempts: 2, DeliveredAt: at(30)},
	}, 10)
	want := n.PeekMark(7)
	if want.Recipient != to || want.Attempts != 3 || want.DeliveredAt != 20 {
		t.Errorf("noted %+v", want)
	}
	if got := n.TakeMark(7); got != want {
		t.Errorf("took %+v, want %+v", got, want)
	}
	if got := n.TakeMark(7); got != (notes.Mark{}) {
		t.Errorf("took it once more: %+v", got)
	}
}

func TestMarksWaitForAnAckThatTakesThemAlong(t *testing.T) {
	var n notes.Notes
	n.Mark([]mailbox.Mark{{Pos: 1, Attempts: 1}}, 1000)
	n.Mark([]mailbox.Mark{{Pos: 2, Attempts: 1}}, 1600)
	n.Mark([]mailbox.Mark{{Pos: 1, Attempts: 2}}, 1600) // a second mark does not restart the wait
	if marks, _ := n.Take(2100); len(marks) != 1 || marks[0].Pos != 1 || marks[0].Attempts != 2 {
		t.Errorf("to be written: %+v, want the first copy's alone", marks)
	}
	if marks, _ := n.TakeAll(); len(marks) != 1 || marks[0].Pos != 2 {
		t.Errorf("the rest: %+v, want the second copy's", marks)
	}
	n.Mark([]mailbox.Mark{{Pos: 3, Attempts: 1}}, 1000)
	n.ForgetMarks()
	if marks, _ := n.TakeAll(); len(marks) != 0 {
		t.Errorf("%+v was to be forgotten", marks)
	}
}

func TestSightingsAreKnownUntilTheyAreTaken(t *testing.T) {
	var n notes.Notes
	n.Seen([]mailbox.Seen{
		{App: app, Recipient: to, Device: "phone", At: at(10)},
		{App: app, Recipient: to, Device: "desk", At: at(30)},
		{App: app, Recipient: to, At: at(20)},
		{App: app, Recipient: "bob", Device: "phone", At: at(10)},
	})
	if got := n.LastSeen(app, to); got != 30 {
		t.Errorf("last seen at %d, want 30", got)
	}
	if got := n.DevicesOf(app, to, 20); !slices.Equal(got, []string{"desk"}) {
		t.Errorf("devices seen since 20: %q", got)
	}
	n.Forget(app, "bob")
	_, seen := n.Take(0)
	if len(seen) != 1 || seen[0].Recipient != to || seen[0].At != 30 || len(seen[0].Devices) != 2 {
		t.Errorf("to be written: %+v", seen)
	}
	if n.LastSeen(app, to) != 0 || n.DevicesOf(app, to, 0) != nil {
		t.Error("what was taken is still known")
	}
}

func TestAMarkThatItsAcknowledgementOvertookIsNotKept(t *testing.T) {
	var n notes.Notes
	written := func(device string) []mailbox.Mark {
		return []mailbox.Mark{{App: app, Recipient: to, Pos: 7, Attempts: 1, DeliveredAt: at(20), Device: device, Over: mailbox.OverOf("ws", device)}}
	}
	n.TakeMarkOf(&mailbox.Settle{Over: mailbox.OverOf("ws", "phone")}, 7)
	n.Mark(written("desk"), 1000) // another session's
	n.Mark(written("phone"), 1000)
	n.Mark(written("phone"), 1000) // once more
	marks, _ := n.TakeAll()
	if len(marks) != 1 || len(marks[0].Tried()) != 2 {
		t.Errorf("kept: %+v", marks)
	}
	n.TakeMarkOf(&mailbox.Settle{Over: mailbox.OverOf("ws", "")}, 8)
	n.Take(0)
	n.Take(0) // two seconds later no late record is expected any more
	n.Mark([]mailbox.Mark{{App: app, Recipient: to, Pos: 8, Attempts: 1, DeliveredAt: at(20), Over: mailbox.OverOf("ws", "")}}, 1000)
	if marks, _ := n.TakeAll(); len(marks) != 1 {
		t.Errorf("kept: %+v", marks)
	}
}

func TestAWriteThatItsSettleTellsOfIsNotNoted(t *testing.T) {
	var n notes.Notes
	over := mailbox.OverOf("ws", "phone")
	n.Mark([]mailbox.Mark{
		{App: app, Recipient: to, Pos: 7, Attempts: 1, Over: over, Ack: notification.AckNone, Told: true},
		{App: app, Recipient: to, Pos: 8, Attempts: 1, Over: over, Ack: notification.AckNone},
	}, 10)
	if got := n.PeekMark(7); got.Attempts != 0 {
		t.Errorf("noted %+v", got)
	}
	if got := n.PeekMark(8); got.Attempts != 1 {
		t.Errorf("noted %+v of what nothing else tells of", got)
	}
	// A write that settles is recorded first: a later record from another session is another attempt.
	n.TakeMarkOf(&mailbox.Settle{Over: over, As: notification.Delivered}, 7)
	n.Mark([]mailbox.Mark{{App: app, Recipient: to, Pos: 7, Attempts: 1, Over: over}}, 11)
	if got := n.PeekMark(7); got.Attempts != 1 {
		t.Errorf("a write after the one that settled was taken for that one: %+v", got)
	}
}
