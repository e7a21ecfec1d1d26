package storetest

import (
	"fmt"
	"time"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
)

func (e *env) deviceAck(id, device string, want mailbox.SettleOutcome, online ...string) {
	e.Helper()
	q := &mailbox.Settle{Recipient: "r", ID: id, As: notification.Acked, Device: device, Online: online}
	if got := e.settleWith(q); got != want {
		e.Fatalf("%s acknowledges %s with %v online: outcome %d, want %d", device, id, online, got, want)
	}
}

func (e *env) seen(device string) {
	e.s.Seen([]mailbox.Seen{{App: App, Recipient: "r", Device: device, At: e.clock.Now()}})
}

func (e *env) pendingOn(device string) []string {
	e.Helper()
	return itemIDs(e.pending(mailbox.PendingQuery{Recipient: "r", Device: device}).Items)
}

// severalOfEachMode stores copies of each ack mode for several recipients, ordered neither by recipient nor by mode.
func (e *env) severalOfEachMode() (batch []mailbox.Settle) {
	e.Helper()
	var notes []*mailbox.Append
	for i := range 8 {
		for _, to := range []string{"s", "r", "q"} {
			for mode, name := range map[notification.AckMode]string{notification.AckAny: "any", notification.AckAll: "all", notification.AckNone: "none"} {
				id := fmt.Sprint(name, i)
				notes = append(notes, &mailbox.Append{N: e.note(id, ack(mode)), To: []string{to}})
				as := notification.Acked
				if mode == notification.AckNone {
					as = notification.Delivered
				}
				batch = append(batch, mailbox.Settle{App: App, Recipient: to, ID: id, As: as, Online: []string{"a", "b"}})
			}
		}
	}
	e.storedAtOnce(notes...)
	return batch
}

// ackBatch settles all of these with one device's acknowledgements in one call.
func (e *env) ackBatch(s mailbox.Store, batch []mailbox.Settle, device string, byPos bool) {
	e.Helper()
	settles := make([]*mailbox.Settle, len(batch))
	for i, q := range batch {
		q.Device, q.At = device, e.clock.Now()
		if byPos {
			q.Pos = e.posOf(q.Recipient, q.ID)
		}
		settles[i] = &q
	}
	if err := s.Settle(e.Context(), settles); err != nil {
		e.Fatalf("%s acknowledges %d at once: %v", device, len(batch), err)
	}
}

func (e *env) wantAllEnded(batch []mailbox.Settle) {
	e.Helper()
	for _, q := range batch {
		e.wantStatus(q.Recipient, q.ID, q.As)
	}
	for _, to := range []string{"q", "r", "s"} {
		e.wantPending(to)
	}
}

var ackAllCases = []testCase{
	{"AllMeansEveryDeviceOnline", []Ability{AckAll}, func(e *env) {
		e.stored(e.note("x", ack(notification.AckAll)), "r")
		e.deviceAck("x", "a", mailbox.SettlePartial, "a", "b")
		e.deviceAck("x", "a", mailbox.SettlePartial, "a", "b")
		e.deviceAck("x", "b", mailbox.SettleDone, "a", "b")
		e.deviceAck("x", "b", mailbox.SettleAlready, "a", "b")
		e.wantPending("r")
	}},
	{"AllMeansEveryKnownDeviceToo", []Ability{AckAll}, func(e *env) {
		e.seen("phone")
		e.seen("tablet")
		e.stored(e.note("x", ack(notification.AckAll)), "r")
		e.deviceAck("x", "phone", mailbox.SettlePartial, "phone")
		e.reopen()
		e.deviceAck("x", "phone", mailbox.SettlePartial, "phone")
		e.deviceAck("x", "tablet", mailbox.SettleDone, "tablet")
	}},
	{"ADeviceIsForgottenAfterThirtyDays", []Ability{AckAll}, func(e *env) {
		e.seen("old")
		e.clock.Advance(29 * 24 * time.Hour)
		e.seen("new")
		e.stored(e.note("x", ack(notification.AckAll), ttl(30*24*time.Hour)), "r")
		e.deviceAck("x", "new", mailbox.SettlePartial)
		e.clock.Advance(24*time.Hour + time.Second)
		e.deviceAck("x", "", mailbox.SettleDone)
	}},
	{"ADeviceThatGoesAwayEndsTheWait", []Ability{AckAll}, func(e *env) {
		e.stored(e.note("x", ack(notification.AckAll)), "r")
		e.deviceAck("x", "", mailbox.SettlePartial, "a", "b")
		e.deviceAck("x", "", mailbox.SettlePartial)
		e.deviceAck("x", "a", mailbox.SettlePartial, "a", "b")
		e.deviceAck("x", "", mailbox.SettleDone, "a")
	}},
	{"ADeviceIsNotAskedAgain", []Ability{AckAll}, func(e *env) {
		e.stored(e.note("x", ack(notification.AckAll)), "r")
		e.stored(e.note("y"), "r")
		e.deviceAck("x", "a", mailbox.SettlePartial, "a", "b")
		for range 2 {
			wantIDs(e, "a", e.pendingOn("a"), []string{"y"})
			wantIDs(e, "b", e.pendingOn("b"), []string{"x", "y"})
			wantIDs(e, "anyone", e.pendingOn(""), []string{"x", "y"})
			e.reopen()
		}
		res := e.pending(mailbox.PendingQuery{Recipient: "r", Device: "a", Limit: 1})
		wantIDs(e, "a, limited", itemIDs(res.Items), []string{"y"})
	}},
	{"SeveralAcknowledgedInOneBatchAllSettle", []Ability{AckAll}, func(e *env) {
		batch := e.severalOfEachMode()
		for i, byPos := range []bool{false, true} {
			ids := batch[i*len(batch)/2 : (i+1)*len(batch)/2]
			e.ackBatch(e.s, ids, "a", byPos)
			e.ackBatch(e.s, ids, "b", byPos)
		}
		e.wantAllEnded(batch)
	}},
	{"OthersThanAcksEndItForAllDevices", []Ability{AckAll, Recall}, func(e *env) {
		e.stored(e.note("x", ack(notification.AckAll)), "r")
		e.deviceAck("x", "a", mailbox.SettlePartial, "a", "b")
		e.ends("r", "x", notification.Recalled, mailbox.SettleDone)
		e.wantPending("r")
	}},
}
