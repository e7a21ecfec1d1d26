package mailboxdb

import (
	"context"
	"fmt"
	"slices"
	"time"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/store/attempts"
	"godwit.dev/godwit/internal/store/await"
	"godwit.dev/godwit/internal/store/millis"
	"godwit.dev/godwit/internal/store/notes"
)

// deviceMemory is how long after its last connection a device still counts: until then, ack mode "all" waits for the device's ack.
const deviceMemory = 30 * 24 * time.Hour

// settleOp settles copies of recipients of one lane.
type settleOp struct {
	await.Op
	lane  *lane
	batch []*mailbox.Settle
	slow  bool // quick ones were tried
}

func (s *Store) settleOps(batch []*mailbox.Settle) (ops []*settleOp) {
	last := make([]*settleOp, len(s.lanes)) // op of each lane
	for _, q := range batch {
		lane := s.laneOf(q.App, q.Recipient)
		o := last[lane]
		if o == nil || len(o.batch) >= maxRows {
			o = &settleOp{lane: s.lanes[lane]}
			last[lane], ops = o, append(ops, o)
		}
		o.batch = append(o.batch, q)
	}
	return ops
}

// Settle implements mailbox.Store.
func (s *Store) Settle(ctx context.Context, batch []*mailbox.Settle) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("settle notifications: %w", context.Cause(ctx))
	}
	err := await.All(ctx, s.settleOps(batch), func(o *settleOp) {
		o.lane.submit("", o) // acknowledgements are as one app
	})
	return s.storeError("settle notifications", err)
}

// SettleLater implements mailbox.Store.
func (s *Store) SettleLater(batch []*mailbox.Settle) {
	for _, o := range s.settleOps(batch) {
		o.lane.submitLazy(o)
	}
}

func (o *settleOp) size() (rows, bytes int) {
	bytes = 64 * len(o.batch)
	for _, q := range o.batch {
		if q.Reply != nil {
			bytes += len(q.Reply.Data)
		}
	}
	return len(o.batch), bytes
}

// replies reports whether the op contains an answer for which somebody waits.
func (o *settleOp) replies() bool {
	return slices.ContainsFunc(o.batch, func(q *mailbox.Settle) bool { return q.Reply != nil })
}

// patience returns how long the op may wait for a publish.
func (o *settleOp) patience() time.Duration {
	if o.replies() {
		return replyAfter
	}
	return lazyAfter
}

// openFor returns the open copy that a settle refers to, or nil.
func (t *transaction) openFor(q *mailbox.Settle) *open {
	b := t.boxes[mailbox.Address{App: q.App, Recipient: q.Recipient}]
	pos := q.Pos
	if pos == 0 {
		r := t.known(b, q.ID)
		if r == nil || !r.open {
			return nil
		}
		pos = r.pos
	}
	if o := t.opens[pos]; o != nil && o.box == b && !o.settled {
		return o
	}
	return nil
}

func (t *transaction) settle(q *mailbox.Settle) mailbox.SettleOutcome {
	o := t.openFor(q)
	if o == nil {
		return t.settleClosed(q)
	}
	at, mark := millis.Of(q.At), t.l.s.notes.TakeMarkOf(q, o.pos)
	if mark.DeliveredAt == 0 {
		mark.DeliveredAt = millis.Of(q.DeliveredAt)
	}
	if o.delivered == 0 {
		o.delivered = mark.DeliveredAt
	}
	o.attempts = max(o.attempts, int32(mark.Attempts), int32(q.Attempts)) // counts deliveries
	done := ending{id: q.ID, as: q.As, at: at, device: q.Device, by: q, mark: mark}
	if q.As == notification.Acked && o.flags.ack() == notification.AckNone { // an eager client's ack overtook the note of the first write
		done.as, done.device = notification.Delivered, ""
		if o.delivered == 0 {
			o.delivered = at
		}
	}
	if q.As == notification.Replied {
		if done.reply = q.Reply; !o.flags.asks() { // nobody waits for the answer
			done.as, done.reply = notification.Acked, nil
		}
	}
	switch {
	case o.expires <= at && !inGrace(o.expires, o.delivered, q):
		t.end(o, ending{id: q.ID, as: notification.Expired, at: o.expires, by: q, mark: mark})
		return mailbox.SettleLate
	case !q.As.Settled(o.flags.ack()): // "delivered" settles only copies that need no ack
		return t.partly(o, &mark)
	case q.Nack:
		if !t.countNack(o, q) {
			return t.partly(o, &mark)
		}
	case q.As == notification.Acked && o.flags.ack() == notification.AckAll:
		all, last := t.countAck(o, q)
		if done.at = max(at, last); !all {
			if q.Device != "" && !t.l.s.cfg.NoAttempts {
				t.out.tried.add(o.box.key, o.pos, at, []attempts.Tried{attempts.Acked(q)}, false)
			}
			return t.partly(o, &mark)
		}
	}
	t.end(o, done)
	return mailbox.SettleDone
}

// partly records the delivery and the attempts of a copy that stays open.
func (t *transaction) partly(o *open, m *notes.Mark) mailbox.SettleOutcome {
	t.out.mark(o)
	t.out.tried.add(o.box.key, o.pos, t.l.s.nowMS(), m.Tried(), false)
	return mailbox.SettlePartial
}

// inGrace reports whether an ack after the expiry counts: the notification was delivered before it expired,
// and the grace is not over.
func inGrace(expires, delivered int64, q *mailbox.Settle) bool {
	return delivered > 0 && delivered <= expires && (q.As == notification.Acked || q.As == notification.Replied) &&
		millis.Of(q.At) <= expires+notification.AckGrace.Milliseconds()
}

// settleClosed handles copies that are not open: an ack within the grace period after expiry still counts.
func (t *transaction) settleClosed(q *mailbox.Settle) mailbox.SettleOutcome {
	b := t.boxes[mailbox.Address{App: q.App, Recipient: q.Recipient}]
	var r *row
	if q.Pos == 0 {
		r = t.known(b, q.ID)
	} else if r = t.closed[q.Pos]; r == nil || r.recipient != b.key {
		if o := t.opens[q.Pos]; o != nil && o.box == b { // by this commit
			return settledBefore(o.as)
		}
		return mailbox.SettleUnknown
	}
	switch {
	case r == nil || q.ID != "" && r.id != q.ID:
		return mailbox.SettleUnknown
	case notification.Status(r.status) != notification.Expired: // as stored
		return mailbox.SettleAlready
	}
	if r.delivered == 0 {
		r.delivered = millis.Of(q.DeliveredAt)
	}
	if !inGrace(r.expires, r.delivered, q) {
		return mailbox.SettleLate
	}
	as := q.As
	switch {
	case as == notification.Replied && !r.flags.asks():
		as = notification.Acked
	case as == notification.Replied && q.Reply != nil:
		t.out.reply(b, r.pos, millis.Of(q.At), q.Reply)
	}
	r.status, r.settled, r.attempts = int16(as), millis.Of(q.At), max(r.attempts, int32(q.Attempts)) // counts deliveries
	t.out.revive(r)
	t.tell.Settled = append(t.tell.Settled, mailbox.Settled{
		App: q.App, Recipient: q.Recipient, ID: r.id, Pos: r.pos, As: as, Device: q.Device, At: q.At,
	})
	return mailbox.SettleDone
}

func settledBefore(as notification.Status) mailbox.SettleOutcome {
	if as == notification.Expired {
		return mailbox.SettleLate
	}
	return mailbox.SettleAlready
}

// ending describes the end of a copy.
type ending struct {
	id     string
	as     notification.Status
	at     int64
	device string
	reply  *notification.Reply // nil: none
	by     *mailbox.Settle     // nil: nobody asked for it
	mark   notes.Mark          // what was not written yet

	category string // where it was read
}

// ended is a copy that this commit settles, unless another node has settled it first.
type ended struct {
	*open
	ending
}

// end ends an open copy.
func (t *transaction) end(o *open, end ending) {
	o.settled, o.as, o.at = true, end.as, end.at
	o.box.pending--
	t.out.settle(o)
	t.out.tried.end(t.l.s, o.box.key, o.pos, end.at, end.by, end.as, &end.mark)
	if end.reply != nil {
		t.out.reply(o.box, o.pos, end.at, end.reply)
	}
	if o.flags.ack() == notification.AckAll {
		t.out.forgetAcks(o)
	}
	if o.flags.escalates() {
		t.out.endSteps(o)
	}
	t.ended = append(t.ended, ended{o, end})
}

// settledNow reports the copies that this commit has ended.
func (t *transaction) settledNow() {
	for _, e := range t.ended {
		if !t.gone[e.pos] {
			if e.by != nil {
				e.by.Outcome = mailbox.SettleAlready
			}
			continue
		}
		if e.scheduled() {
			t.scheduled--
		} else {
			t.pending--
		}
		t.tell.Settled = append(t.tell.Settled, mailbox.Settled{
			App: e.box.App, Recipient: e.box.Recipient, ID: e.ending.id, Pos: e.pos, As: e.ending.as, Escalates: e.flags.escalates(), Device: e.device, At: millis.Time(e.ending.at), Category: e.category,
		})
	}
}

// countNack counts a client's rejection of a copy, and reports whether the copy has reached the limit of nacks. A nack without a reason
// keeps the earlier reason.
func (t *transaction) countNack(o *open, q *mailbox.Settle) (enough bool) {
	n := t.nacks[o.pos]
	n.count++
	n.at = millis.Of(q.At)
	if q.Reason != "" {
		n.reason = q.Reason
	}
	return n.count >= notification.MaxNacks
}

// countAck records a device's ack and reports whether every device has acknowledged the copy: all devices that are online, and all seen in
// the last 30 days. last is the time of the latest of these acks.
func (t *transaction) countAck(o *open, q *mailbox.Settle) (all bool, last int64) {
	acked := t.acks[o.pos]
	if _, before := acked[q.Device]; q.Device != "" && !before {
		acked[q.Device] = millis.Of(q.At)
		t.out.deviceAck(o, q.Device, millis.Of(q.At))
	}
	if len(acked) == 0 {
		return false, 0
	}
	for _, at := range acked {
		last = max(last, at)
	}
	has := func(device string) bool {
		_, ok := acked[device]
		return ok
	}
	since := millis.Of(q.At.Add(-deviceMemory))
	for _, d := range o.box.devices {
		if d.seen >= since && !has(d.name) {
			return false, last
		}
	}
	for _, name := range append(t.l.s.notes.DevicesOf(q.App, q.Recipient, since), q.Online...) {
		if !has(name) {
			return false, last
		}
	}
	return true, last
}
