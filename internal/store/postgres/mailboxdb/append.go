package mailboxdb

import (
	"context"
	"fmt"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/store/await"
	"godwit.dev/godwit/internal/store/content"
	"godwit.dev/godwit/internal/store/millis"
)

// appendOp stores publishes to recipients of one lane.
type appendOp struct {
	await.Op
	lane  *lane
	parts []part
	rows  int
	bytes int
	slow  bool // storing it in one round trip was tried
}

// part holds the recipients of one publish that are on one lane.
type part struct {
	a    *mailbox.Append
	to   []int // of a.To
	prep *prepared
}

// prepared is the part of a publish that can be computed before it is stored.
type prepared struct {
	idKey int64
	hash  int64
	body  []byte
	steps []byte // nil: it has no steps beyond live
}

// Append implements mailbox.Store. Recipients of different lanes are in different commits.
func (s *Store) Append(ctx context.Context, batch []*mailbox.Append) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("store notifications: %w", context.Cause(ctx))
	}
	err := await.All(ctx, s.appendOps(batch), func(o *appendOp) {
		o.lane.submit(o.parts[0].a.N.App, o) // all publishes of a batch belong to one app
	})
	return s.storeError("store notifications", err)
}

// appendOps divides publishes among the lanes.
func (s *Store) appendOps(batch []*mailbox.Append) (ops []*appendOp) {
	last := make([]*appendOp, len(s.lanes)) // op of each lane
	add := func(lane int, p part) {
		o := last[lane]
		if o == nil || o.rows >= maxRows {
			o = &appendOp{lane: s.lanes[lane]}
			last[lane], ops = o, append(ops, o)
		}
		o.parts = append(o.parts, p)
		o.rows += len(p.to)
		o.bytes += len(p.prep.body) + (128+len(p.prep.steps))*len(p.to)
	}
	for _, a := range batch {
		a.Results = append(a.Results[:0], make([]mailbox.AppendResult, len(a.To))...)
		p := &prepared{idKey: idKey(a.N.App, a.N.ID)}
		p.body, p.hash = content.Encode(&a.N.Content)
		if a.N.Steps != nil {
			p.steps = content.EncodeSteps(a.N.Steps)
		}
		if len(a.To) == 1 {
			add(s.laneOf(a.N.App, a.To[0]), part{a: a, to: []int{0}, prep: p})
			continue
		}
		to := make([][]int, len(s.lanes))
		for i, name := range a.To {
			lane := s.laneOf(a.N.App, name)
			to[lane] = append(to[lane], i)
		}
		for lane := range to {
			if len(to[lane]) > 0 {
				add(lane, part{a: a, to: to[lane], prep: p})
			}
		}
	}
	return ops
}

func (o *appendOp) size() (rows, bytes int) { return o.rows, o.bytes }

// append stores one publish: its content once and a row for each recipient.
func (t *transaction) append(p *part) error {
	n := p.a.N
	var shared *int64
	kept, first := 0, int64(0)
	for _, i := range p.to {
		res := &p.a.Results[i]
		*res = mailbox.AppendResult{Status: notification.Stored, ExpiresAt: n.ExpiresAt}
		if !n.SendAt.IsZero() {
			res.Status = notification.Scheduled
		}
		b := t.boxes[mailbox.Address{App: n.App, Recipient: p.a.To[i]}]
		if b.last == p.a { // named twice in one publish
			res.Duplicate = true
			continue
		}
		if !p.a.Fresh && t.duplicate(b, n, p.prep, res) {
			continue
		}
		if p.a.Refused != nil {
			*res = mailbox.AppendResult{Err: p.a.Refused}
			continue
		}
		t.replaceCollapsed(b, n)
		if b.counted && b.pending >= t.l.s.cfg.MaxPending {
			res.Err = fmt.Errorf("%s has %d: %w", b.Recipient, b.pending, mailbox.ErrFull)
			if !p.a.Fresh { // an expired copy is replaced anyway
				t.out.forget(b, n.ID, p.prep.idKey)
			}
			continue
		}
		if n.CollapseKey != "" && n.Content.Inbox == nil {
			if err := t.unkeep(b, n.CollapseKey); err != nil {
				return err
			}
		}
		pos := t.next[0]
		t.next = t.next[1:]
		if len(p.to) > 1 && shared == nil {
			shared = &pos
			t.out.content(pos, p.prep.body)
		}
		t.store(b, p, pos, shared)
		if n.Content.Inbox == nil || !n.SendAt.IsZero() {
			continue
		}
		if kept++; first == 0 {
			first = pos
		}
		if err := t.keep(b, n, first, millis.Of(n.CreatedAt)); err != nil {
			return err
		}
	}
	if kept > 0 {
		t.inboxes.keepContent(first, kept, content.Kept(&n.Content, p.prep.body))
	}
	return nil
}

// store adds a copy.
func (t *transaction) store(b *box, p *part, pos int64, shared *int64) {
	n := p.a.N
	o := &open{box: b, pos: pos, id: n.ID, sendAt: millis.Of(n.SendAt), expires: millis.Of(n.ExpiresAt), flags: flagsOf(n), collapse: n.CollapseKey}
	if n.SendAt.IsZero() {
		b.lastSeq++
		o.seq = b.lastSeq
		t.pending++
	} else {
		t.scheduled++
	}
	b.copies++
	b.pending++
	b.changed, b.last = true, p.a
	t.opens[pos] = o
	if n.CollapseKey != "" {
		b.collapse = append(b.collapse, o)
	}
	if !p.a.Fresh {
		b.ids[n.ID] = &row{
			pos: pos, recipient: b.key, id: n.ID, flags: o.flags, seq: o.seq, sendAt: o.sendAt, expires: o.expires, hash: p.prep.hash, open: true,
		}
	}
	t.out.note(o, n, p.prep, shared)
	if o.flags.escalates() {
		t.out.escalate(o, n, p.prep)
	}
	t.tell.Stored = append(t.tell.Stored, mailbox.Item{Pos: pos, Recipient: b.Recipient, Seq: uint64(o.seq), Escalates: o.flags.escalates(), N: n}) // counts from 0
}

// duplicate fills res and returns true if b has, or recently had, a notification with this id.
func (t *transaction) duplicate(b *box, n *notification.Notification, p *prepared, res *mailbox.AppendResult) bool {
	old := t.known(b, n.ID)
	now := millis.Of(n.CreatedAt)
	switch {
	case old == nil:
		return false
	case !old.open && old.settled < now-notification.DedupWindow.Milliseconds():
		return false // the new copy hides the old one from now on
	case old.hash != p.hash:
		res.Err = fmt.Errorf("notification %s to %s: %w", n.ID, b.Recipient, mailbox.ErrConflict)
		return true
	}
	res.Duplicate, res.Status, res.ExpiresAt = true, notification.Status(old.status), millis.Time(old.expires) // as stored
	if old.open {
		res.Status = t.opens[old.pos].status(now)
	}
	return true
}

// replaceCollapsed settles what n replaces.
func (t *transaction) replaceCollapsed(b *box, n *notification.Notification) {
	if n.CollapseKey == "" {
		return
	}
	now := millis.Of(n.CreatedAt)
	for _, o := range b.collapse {
		if !o.settled && o.collapse == n.CollapseKey && o.expires > now {
			mark := t.l.s.notes.TakeMark(o.pos)
			if o.delivered == 0 {
				o.delivered = mark.DeliveredAt
			}
			o.attempts = max(o.attempts, int32(mark.Attempts)) // counts deliveries
			t.end(o, ending{id: o.id, as: notification.Replaced, at: now, mark: mark})
		}
	}
}
