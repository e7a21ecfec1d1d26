package mailboxdb

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/store/millis"
)

// Nearly all acknowledgements are plain ones of open copies, by position. One statement settles these copies without the recipient's lock
// and without reading first, and returns the copies that it found. Copies with steps beyond live are settled under the lock, since their
// next step has to be deleted with them.

// quick reports whether a settle may be tried in this way.
func quick(q *mailbox.Settle) bool {
	return q.Pos != 0 && !q.Nack && q.Reply == nil && (q.As == notification.Acked || q.As == notification.Delivered)
}

// askQuick queues the statement that settles the copies of t.quick, in the order of keys and positions, so that nodes that settle the same
// copies do not wait for each other in a circle. If a copy has several acknowledgements, the statement names only the first; otherwise the
// time of any of them could be stored.
func (t *transaction) askQuick(a *asking) {
	slices.SortStableFunc(t.quick, func(p, q *mailbox.Settle) int {
		return cmp.Or(cmp.Compare(t.keyOf(p), t.keyOf(q)), cmp.Compare(p.Pos, q.Pos), p.At.Compare(q.At))
	})
	var keys, positions, at, delivered []int64
	var attempts []int32
	var status, mode []int16
	last := int64(0)
	for _, q := range t.quick {
		key := t.keyOf(q)
		if key == 0 || q.Pos == last { // a position belongs to one recipient only
			continue
		}
		last = q.Pos
		m := t.l.s.notes.PeekMark(q.Pos)
		if m.DeliveredAt == 0 {
			m.DeliveredAt = millis.Of(q.DeliveredAt)
		}
		settles := notification.AckAny
		if q.As == notification.Delivered {
			settles = notification.AckNone
		}
		keys, positions, at, delivered = append(keys, key), append(positions, q.Pos), append(at, millis.Of(q.At)), append(delivered, m.DeliveredAt)
		attempts, status = append(attempts, int32(max(m.Attempts, q.Attempts))), append(status, int16(q.As)) // counts deliveries
		mode = append(mode, int16(settles)<<ackShift)
		t.out.tried.end(t.l.s, key, q.Pos, millis.Of(q.At), q, q.As, &m)
	}
	if len(keys) > 0 {
		a.ask(fmt.Sprintf(settleQuickly, t.hour, ackBits|stepsFlag), t.readGone, keys, positions, at, delivered, attempts, status, mode)
	}
}

func (t *transaction) keyOf(q *mailbox.Settle) int64 {
	return t.boxes[mailbox.Address{App: q.App, Recipient: q.Recipient}].key
}

// readGone reads the copies that a statement has settled.
func (t *transaction) readGone(rows pgx.Rows) error {
	if t.gone == nil {
		t.gone = make(map[int64]bool)
	}
	var pos int64
	_, err := pgx.ForEachRow(rows, []any{&pos}, func() error {
		t.gone[pos] = true
		return nil
	})
	return err
}

// settledQuickly sets the outcomes of the settles that took effect. It adds the others to t.missed: their copies are unknown, were settled
// before, or need more than the quick statement does.
func (t *transaction) settledQuickly() {
	for _, q := range t.quick {
		if !t.gone[q.Pos] {
			t.missed = append(t.missed, q)
			continue
		}
		delete(t.gone, q.Pos) // a second settle of the same copy has no effect
		t.l.s.notes.TakeMarkOf(q, q.Pos)
		q.Outcome = mailbox.SettleDone
		t.pending--
		t.tell.Settled = append(t.tell.Settled, mailbox.Settled{
			App: q.App, Recipient: q.Recipient, ID: q.ID, Pos: q.Pos, As: q.As, Device: q.Device, At: q.At,
		})
	}
	t.quick = nil
}
