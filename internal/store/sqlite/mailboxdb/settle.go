package mailboxdb

import (
	"context"
	"fmt"
	"slices"
	"time"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/store/await"
	"godwit.dev/godwit/internal/store/content"
	"godwit.dev/godwit/internal/store/millis"
	"godwit.dev/godwit/internal/store/notes"
)

// deviceMemory is how long after its last connection a device still counts: until then, ack mode "all" waits for the device's ack.
const deviceMemory = 30 * 24 * time.Hour

// settleOp settles copies.
type settleOp struct {
	await.Op
	onceMore
	s     *Store
	batch []*mailbox.Settle
}

// Settle implements mailbox.Store.
func (s *Store) Settle(ctx context.Context, batch []*mailbox.Settle) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("settle notifications: %w", context.Cause(ctx))
	}
	return storeError("settle notifications", carryOut(ctx, s, "", s.settleOps(batch)))
}

// SettleLater implements mailbox.Store.
func (s *Store) SettleLater(batch []*mailbox.Settle) {
	for _, op := range s.settleOps(batch) {
		s.db.SubmitLazy(op)
	}
}

func (s *Store) settleOps(batch []*mailbox.Settle) (ops []*settleOp) {
	for part := range slices.Chunk(batch, maxOpRows) {
		ops = append(ops, &settleOp{s: s, batch: part})
	}
	return ops
}

func (op *settleOp) Size() (rows, bytes int) {
	bytes = 64 * len(op.batch)
	for _, q := range op.batch {
		if q.Reply != nil {
			bytes += len(q.Reply.Data)
		}
	}
	return len(op.batch), bytes
}

// recipients implements addressed. The caller of a withdrawn operation may use its memory again.
func (op *settleOp) recipients(yield func(string) bool) {
	if !op.Take() {
		return
	}
	for _, q := range op.batch {
		if !yield(q.Recipient) {
			return
		}
	}
}

// Apply implements sqlitedb.Op.
func (op *settleOp) Apply(*sqlite.Conn) error {
	if !op.Take() {
		return nil
	}
	for _, q := range op.batch {
		outcome, err := op.s.settle(q)
		if err != nil {
			return fmt.Errorf("settle %s of %s: %w", q.ID, q.Recipient, err)
		}
		q.Outcome = outcome
	}
	return nil
}

func (op *settleOp) Done(err error) {
	if err != nil && !op.Waited() {
		op.s.notes.settleAgain(op.batch, err)
	}
	op.Finish(err)
}

func (s *Store) settle(q *mailbox.Settle) (mailbox.SettleOutcome, error) {
	r, err := s.known(q.App, q.Recipient)
	if err != nil || r == nil {
		return mailbox.SettleUnknown, err
	}
	pos := q.Pos
	if pos == 0 {
		found, ok, err := s.findRow(r, idHash(q.App, q.ID), q.ID)
		if err != nil || !ok {
			return mailbox.SettleUnknown, err
		}
		pos = found.pos
	}
	e := r.find(pos)
	if e == nil {
		return s.settleClosed(r, pos, q)
	}
	mark := s.notes.TakeMarkOf(q, pos)
	if mark.DeliveredAt == 0 {
		mark.DeliveredAt = millis.Of(q.DeliveredAt)
	}
	at := millis.Of(q.At)
	done := ending{
		id: q.ID, as: q.As, at: at, device: q.Device, deliveredAt: mark.DeliveredAt, attempts: max(mark.Attempts, q.Attempts), by: q, mark: mark,
	}
	if q.As == notification.Acked && e.is(flagAckNone) { // an eager client's ack overtook the note of the first write
		done.as, done.device = notification.Delivered, ""
		if done.deliveredAt == 0 {
			done.deliveredAt = at
		}
	}
	if q.As == notification.Replied {
		if done.reply = q.Reply; !e.is(flagAsks) { // nobody waits for the answer
			done.as, done.reply = notification.Acked, nil
		}
	}
	switch {
	case e.expires() <= at && !s.inGrace(e.expires(), e.is(flagDelivered) || mark.DeliveredAt > 0, mark.DeliveredAt, q):
		done.as, done.device, done.at, done.reply = notification.Expired, "", e.expires(), nil
		return mailbox.SettleLate, s.settleEntry(r, e, done)
	case !q.As.Settled(e.mode()): // "delivered" settles only copies that need no ack
		return mailbox.SettlePartial, s.recordMarkAlone(r, e, mark)
	case q.Nack:
		enough, err := s.countNack(pos, q.Reason)
		if err == nil && !enough {
			err = s.recordMarkAlone(r, e, mark)
		}
		if err != nil || !enough {
			return mailbox.SettlePartial, err
		}
	case q.As == notification.Acked && e.is(flagAckAll):
		all, err := s.countAck(r, e, q)
		if err == nil && !all {
			err = s.recordPartial(r, e, mark, q)
		}
		if err != nil || !all {
			return mailbox.SettlePartial, err
		}
	}
	return mailbox.SettleDone, s.settleEntry(r, e, done)
}

// inGrace reports whether an ack after the expiry counts: the notification was delivered before it expired,
// and the grace is not over.
func (s *Store) inGrace(expires int64, delivered bool, deliveredAt int64, q *mailbox.Settle) bool {
	return delivered && deliveredAt <= expires && (q.As == notification.Acked || q.As == notification.Replied) &&
		millis.Of(q.At) <= expires+notification.AckGrace.Milliseconds()
}

// settleClosed handles copies that are not pending: an ack in the grace period after expiry still counts.
func (s *Store) settleClosed(r *recipient, pos int64, q *mailbox.Settle) (mailbox.SettleOutcome, error) {
	was, ok, err := s.row(pos)
	switch {
	case err != nil || !ok || was.recipient != r.key || q.ID != "" && was.id != q.ID:
		return mailbox.SettleUnknown, err
	case was.status != notification.Expired:
		return mailbox.SettleAlready, nil
	}
	delivered := was.delivered
	if delivered <= 0 {
		if delivered = millis.Of(q.DeliveredAt); delivered == 0 {
			delivered = was.delivered
		}
	}
	if !s.inGrace(was.expires, delivered > 0, delivered, q) {
		return mailbox.SettleLate, nil
	}
	as := q.As
	switch {
	case as == notification.Replied && !was.asks:
		as = notification.Acked
	case as == notification.Replied && q.Reply != nil:
		if err := s.saveReply(pos, q.Reply); err != nil {
			return mailbox.SettleUnknown, err
		}
	}
	again := outcome{as: as, at: millis.Of(q.At), delivered: delivered, attempts: max(was.attempts, q.Attempts)}
	st := s.stmts.reviveNote
	st.BindInt64(1, pos)
	st.BindInt64(2, int64(as))
	st.BindInt64(3, millis.Of(q.At))
	st.BindInt64(4, delivered)
	st.BindInt64(5, int64(again.attempts))
	leave := leaving{s: s}
	err = leave.change(st, pos, again.revive, func() error { return s.endPacked(pos, &again) })
	if err == nil {
		err = leave.save()
	}
	if err != nil {
		return mailbox.SettleUnknown, err
	}
	s.tx.batch.Settled = append(s.tx.batch.Settled, mailbox.Settled{
		App: q.App, Recipient: q.Recipient, ID: was.id, Pos: pos, As: as, Device: q.Device, At: q.At,
	})
	return mailbox.SettleDone, nil
}

// ending describes the end of a copy.
type ending struct {
	id          string
	as          notification.Status
	at          int64
	device      string
	deliveredAt int64 // 0: not known
	attempts    uint32
	reply       *notification.Reply // nil: none
	by          *mailbox.Settle     // nil: time
	mark        notes.Mark          // what was not written yet
}

// settleEntry ends a pending copy. The last copy's end deletes the content.
func (s *Store) settleEntry(r *recipient, e *entry, end ending) error {
	s.touch(r)
	o := outcome{as: end.as, at: end.at, delivered: end.deliveredAt, attempts: end.attempts}
	if err := s.keepTried(e.pos, &o, &end); err != nil {
		return err
	}
	category := ""
	if end.as == notification.Expired {
		var err error
		if category, err = s.category(e.contentPos()); err != nil {
			return err
		}
	}
	if err := s.ended(e.pos, o); err != nil {
		return err
	}
	if end.reply != nil {
		if err := s.saveReply(e.pos, end.reply); err != nil {
			return err
		}
	}
	if e.is(flagAckAll) {
		s.stmts.deleteAcks.BindInt64(1, e.pos)
		if err := exec(s.stmts.deleteAcks); err != nil {
			return err
		}
	}
	if e.is(flagSteps) {
		if err := s.deleteStep(e.pos); err != nil {
			return err
		}
	}
	if err := s.releaseContent(e.contentPos(), e.offset == soleCopy, e.is(flagSteps)); err != nil {
		return err
	}
	if e.is(flagScheduled) {
		s.tx.scheduled--
	} else {
		s.tx.pending--
	}
	r.active--
	s.tx.batch.Settled = append(s.tx.batch.Settled, mailbox.Settled{
		App: r.app.name, Recipient: r.name, ID: end.id, Pos: e.pos, As: end.as, Escalates: e.is(flagSteps), Device: end.device, At: fromMS(end.at), Category: category,
	})
	s.mu.Lock()
	e.set(flagLeaving)
	s.mu.Unlock()
	return nil
}

// category reads the category of a content; empty if the content is gone.
func (s *Store) category(pos int64) (name string, err error) {
	s.stmts.readContent.BindInt64(1, pos)
	err = each(s.stmts.readContent, func(row *sqlite.Stmt) error {
		name = content.Category(blob(row, 0))
		return nil
	})
	return name, err
}

// releaseContent removes a copy's reference to its content. The last copy deletes the content and its plan of steps.
func (s *Store) releaseContent(pos int64, sole, steps bool) error {
	if !sole {
		s.contents[pos]--
		s.tx.released = append(s.tx.released, pos)
		if s.contents[pos] > 0 {
			return nil
		}
	}
	if steps {
		s.stmts.deletePlan.BindInt64(1, pos)
		if err := exec(s.stmts.deletePlan); err != nil {
			return err
		}
	}
	s.tx.unneeded = append(s.tx.unneeded, pos)
	return nil
}

// deleteContents deletes the contents that the open transaction has released, adjacent ones in one statement.
func (s *Store) deleteContents() error {
	slices.Sort(s.tx.unneeded)
	for list := s.tx.unneeded; len(list) > 0; {
		n := 1
		for n < len(list) && list[n]-list[n-1] <= 1 {
			n++
		}
		st := s.stmts.deleteContents
		st.BindInt64(1, list[0])
		st.BindInt64(2, list[n-1])
		if err := exec(st); err != nil {
			return fmt.Errorf("delete contents: %w", err)
		}
		list = list[n:]
	}
	return nil
}

// countAck records a device's ack and reports whether every device has acknowledged the copy: all devices that are online, and all seen in
// the last 30 days.
func (s *Store) countAck(r *recipient, e *entry, q *mailbox.Settle) (all bool, err error) {
	if q.Device != "" {
		s.stmts.insertAck.BindInt64(1, e.pos)
		s.stmts.insertAck.BindText(2, q.Device)
		if err := exec(s.stmts.insertAck); err != nil {
			return false, err
		}
	}
	acked := make(map[string]bool)
	s.stmts.readAcks.BindInt64(1, e.pos)
	err = each(s.stmts.readAcks, func(st *sqlite.Stmt) error {
		acked[st.ColumnText(0)] = true
		return nil
	})
	if err != nil || len(acked) == 0 {
		return false, err
	}
	since := millis.Of(q.At.Add(-deviceMemory))
	missing := false
	s.stmts.knownDevices.BindInt64(1, int64(r.key))
	s.stmts.knownDevices.BindInt64(2, since)
	err = each(s.stmts.knownDevices, func(st *sqlite.Stmt) error {
		missing = missing || !acked[st.ColumnText(0)]
		return nil
	})
	if err != nil || missing {
		return false, err
	}
	for _, device := range append(s.notes.DevicesOf(q.App, q.Recipient, since), q.Online...) {
		if !acked[device] {
			return false, nil
		}
	}
	return true, nil
}
