package storetest

import (
	"bytes"
	"time"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
)

// asks makes a notification ask for a reply until its expiry.
func asks(n *notification.Notification) { n.ReplyBy = n.ExpiresAt }

func (e *env) replied(to, id string, r *notification.Reply, want mailbox.SettleOutcome) {
	e.Helper()
	if got := e.settleWith(&mailbox.Settle{Recipient: to, ID: id, As: notification.Replied, Reply: r}); got != want {
		e.Fatalf("reply of %s to %s: outcome %d, want %d", to, id, got, want)
	}
}

func (e *env) wantReply(to, id string, want *notification.Reply) {
	e.Helper()
	got := e.wantStatus(to, id, notification.Replied).Reply
	if got == nil || got.Status != want.Status || got.ContentType != want.ContentType || !bytes.Equal(got.Data, want.Data) {
		e.Fatalf("%s answered %+v to %s, want %+v", to, got, id, want)
	}
}

var replyCases = []testCase{
	{"AReplySettlesAndIsKept", []Ability{Reply}, func(e *env) {
		e.stored(e.note("x", asks), "r", "s", "t")
		if it := e.wantPending("r", "x")[0]; !it.N.ReplyBy.Equal(it.N.ExpiresAt) {
			e.Errorf("what waits is to be answered by %s, want %s", it.N.ReplyBy, it.N.ExpiresAt)
		}
		e.reopen()
		if it := e.wantPending("r", "x")[0]; !it.N.ReplyBy.Equal(it.N.ExpiresAt) {
			e.Errorf("after opening again it is to be answered by %s, want %s", it.N.ReplyBy, it.N.ExpiresAt)
		}
		yes := &notification.Reply{Status: 202, ContentType: "application/json", Data: []byte(`{"accept":true}`)}
		most := &notification.Reply{Status: 200, ContentType: "image/png", Data: bytes.Repeat([]byte{0, 255}, notification.MaxReplyBytes/2)}
		e.replied("r", "x", yes, mailbox.SettleDone)
		e.replied("s", "x", most, mailbox.SettleDone)
		e.wantPending("r")
		e.replied("r", "x", &notification.Reply{Status: 500}, mailbox.SettleAlready)
		e.ends("r", "x", notification.Acked, mailbox.SettleAlready)
		e.reopen()
		e.wantReply("r", "x", yes)
		e.wantReply("s", "x", most)
		e.wantPending("t", "x")
		var told []string
		for _, s := range e.rec.All().Settled {
			told = append(told, s.Recipient+" "+s.As.String())
		}
		wantIDs(e, "settled", told, []string{"r replied", "s replied"})
	}},
	{"AnAckOfWhatAsksForAReplyIsAnAck", []Ability{Reply}, func(e *env) {
		e.stored(e.note("x", asks), "r")
		e.acked("r", "x")
		if rec := e.wantStatus("r", "x", notification.Acked); rec.Reply != nil {
			e.Errorf("its reply is %+v, want none", rec.Reply)
		}
		e.replied("r", "x", &notification.Reply{Status: 200}, mailbox.SettleAlready)
	}},
	{"AReplyThatNobodyAskedForIsAnAck", []Ability{Reply}, func(e *env) {
		e.stored(e.note("x"), "r")
		e.replied("r", "x", &notification.Reply{Status: 200, Data: []byte("hi")}, mailbox.SettleDone)
		if rec := e.wantStatus("r", "x", notification.Acked); rec.Reply != nil {
			e.Errorf("its reply is %+v, want none", rec.Reply)
		}
	}},
	{"AReplyAfterItsTimeIsTooLate", []Ability{Reply}, func(e *env) {
		e.stored(e.note("x", ttl(time.Minute), asks), "r")
		e.clock.Advance(time.Minute + notification.AckGrace + time.Second)
		e.replied("r", "x", &notification.Reply{Status: 200}, mailbox.SettleLate)
		if rec := e.wantStatus("r", "x", notification.Expired); rec.Reply != nil {
			e.Errorf("its reply is %+v, want none", rec.Reply)
		}
	}},
	{"AReplySoonAfterTheExpiryCounts", []Ability{Reply}, func(e *env) {
		e.stored(e.note("x", ttl(time.Minute), asks), "r")
		e.s.Mark([]mailbox.Mark{{App: App, Recipient: "r", ID: "x", Pos: e.rec.All().Stored[0].Pos, Attempts: 1, DeliveredAt: e.clock.Now()}})
		e.clock.Advance(time.Minute + time.Second)
		if _, err := e.s.Expire(e.Context(), e.clock.Now()); err != nil {
			e.Fatal(err)
		}
		e.wantStatus("r", "x", notification.Expired)
		r := &notification.Reply{Status: 200, ContentType: "text/plain", Data: []byte("yes")}
		e.replied("r", "x", r, mailbox.SettleDone)
		e.wantReply("r", "x", r)
	}},
	{"AReplyOfOneDeviceSettlesForAll", []Ability{Reply, AckAll}, func(e *env) {
		e.stored(e.note("x", ack(notification.AckAll), asks), "r")
		r := &notification.Reply{Status: 200, ContentType: "text/plain", Data: []byte("yes")}
		e.replied("r", "x", r, mailbox.SettleDone)
		e.wantReply("r", "x", r)
	}},
	{"RepliesGoWithTheirNotifications", []Ability{Reply}, func(e *env) {
		r := &notification.Reply{Status: 200, Data: []byte("yes")}
		e.stored(e.note("x", asks), "r")
		e.replied("r", "x", r, mailbox.SettleDone)
		if err := e.s.Erase(e.Context(), App, "r"); err != nil {
			e.Fatal(err)
		}
		e.stored(e.note("x", asks), "r")
		e.acked("r", "x")
		if rec := e.wantStatus("r", "x", notification.Acked); rec.Reply != nil {
			e.Errorf("what was erased left %+v", rec.Reply)
		}
	}},
}
