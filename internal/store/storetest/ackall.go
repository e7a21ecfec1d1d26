package storetest

import (
	"time"

	"godwit.dev/godwit/internal/mailbox"
	"godwit.dev/godwit/internal/notification"
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
	{"OthersThanAcksEndItForAllDevices", []Ability{AckAll, Recall}, func(e *env) {
		e.stored(e.note("x", ack(notification.AckAll)), "r")
		e.deviceAck("x", "a", mailbox.SettlePartial, "a", "b")
		e.ends("r", "x", notification.Recalled, mailbox.SettleDone)
		e.wantPending("r")
	}},
}
