package mailboxdb

import (
	"context"
	"fmt"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/store/await"
	"godwit.dev/godwit/internal/store/content"
	"godwit.dev/godwit/internal/store/millis"
)

// maxOpRows limits the copies in one op to about one commit's worth; the last publish may exceed it.
const maxOpRows = 1000

// appendOp stores publishes.
type appendOp struct {
	await.Op
	s     *Store
	items []*mailbox.Append
	prep  []prepared
	rows  int
	bytes int
	full  bool // refuse this op: free space fell below the reserve while it was queued
}

// prepared is the part of a publish that can be computed before the writer takes it.
type prepared struct {
	id   uint32
	hash int64
	body []byte
}

// Append implements mailbox.Store.
func (s *Store) Append(ctx context.Context, batch []*mailbox.Append) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("store notifications: %w", context.Cause(ctx))
	}
	if s.space.Full() {
		return fmt.Errorf("store notifications: %w", mailbox.ErrNoSpace)
	}
	if len(batch) == 0 {
		return nil
	}
	return storeError("store notifications", carryOut(ctx, s, batch[0].N.App, s.appendOps(batch))) // a batch is of one app
}

func (s *Store) appendOps(batch []*mailbox.Append) (ops []*appendOp) {
	var op *appendOp
	for i, a := range batch {
		a.Results = append(a.Results[:0], make([]mailbox.AppendResult, len(a.To))...)
		if op == nil || op.rows >= maxOpRows {
			op = &appendOp{s: s, prep: make([]prepared, 0, len(batch)-i)}
			ops = append(ops, op)
		}
		p := prepared{id: idHash(a.N.App, a.N.ID)}
		p.body, p.hash = content.Encode(&a.N.Content)
		op.items, op.prep = append(op.items, a), append(op.prep, p)
		op.rows += len(a.To)
		op.bytes += len(p.body) + copyBytes(a)*len(a.To)
	}
	return ops
}

// keptBytes is about what a copy takes that an inbox keeps: its head is written again.
const keptBytes = 1024

// copyBytes estimates how many bytes one copy of a publish takes.
func copyBytes(a *mailbox.Append) int {
	if a.N.Content.Inbox != nil {
		return keptBytes
	}
	if len(a.To) < minPacked || !packs(a.N) {
		return 128
	}
	return 16
}

func (op *appendOp) Size() (rows, bytes int) { return op.rows, op.bytes }

func (op *appendOp) Done(err error) {
	if err == nil && op.full {
		err = mailbox.ErrNoSpace
	}
	op.Finish(err)
}

// recipients implements addressed. The caller of a withdrawn operation may use its memory again.
func (op *appendOp) recipients(yield func(string) bool) {
	if !op.Take() {
		return
	}
	for _, item := range op.items {
		for _, to := range item.To {
			if !yield(to) {
				return
			}
		}
	}
}

// Apply implements sqlitedb.Op.
func (op *appendOp) Apply(c *sqlite.Conn) error {
	if !op.Take() {
		return nil
	}
	if op.full = op.s.space.Full(); op.full {
		return nil
	}
	op.s.space.Wrote(int64(2 * op.bytes)) // written twice, to the log and to the file
	for i, a := range op.items {
		if err := op.s.store(a, &op.prep[i]); err != nil {
			return fmt.Errorf("notification %s: %w", a.N.ID, err)
		}
	}
	return nil
}

// store appends one publish: its content once, and its copies, packed if there are several.
func (s *Store) store(a *mailbox.Append, p *prepared) error {
	n := a.N
	first, copies := int64(0), 0
	s.packing.copies = s.packing.copies[:0]
	for i, name := range a.To {
		res := &a.Results[i]
		*res = mailbox.AppendResult{Status: notification.Stored, ExpiresAt: n.ExpiresAt}
		if !n.SendAt.IsZero() {
			res.Status = notification.Scheduled
		}
		if a.Refused != nil {
			if err := s.refuse(a, name, p, res); err != nil {
				return err
			}
			continue
		}
		r, err := s.intern(n.App, name)
		if err != nil {
			return err
		}
		if first != 0 && r.lastPos >= first { // named twice in one publish
			res.Duplicate = true
			continue
		}
		if !a.Fresh {
			known, err := s.checkDuplicate(r, n, p, res)
			if err != nil {
				return err
			}
			if known {
				continue
			}
		}
		if err := s.replaceCollapsed(r, n); err != nil {
			return err
		}
		if int(r.active) >= s.cfg.MaxPending {
			res.Err = fmt.Errorf("%s has %d: %w", name, r.active, mailbox.ErrFull)
			continue
		}
		if n.Content.Inbox == nil && n.CollapseKey != "" {
			if err := s.unkeep(r, n.CollapseKey); err != nil {
				return err
			}
		}
		if first == 0 {
			first = s.pos + 1
		}
		copies++
		if err := s.storeCopy(r, n, p, first, len(a.To) == 1); err != nil {
			return err
		}
		if n.Content.Inbox != nil && n.SendAt.IsZero() {
			if err := s.keep(r, n, first, millis.Of(n.CreatedAt)); err != nil {
				return err
			}
		}
	}
	if copies == 0 {
		return nil
	}
	if err := s.writePack(n, p); err != nil {
		return err
	}
	if len(a.To) > 1 {
		s.contents[first] = copies
		s.tx.shared = append(s.tx.shared, first)
	}
	if n.Steps != nil {
		if err := s.savePlan(first, n.Steps); err != nil {
			return err
		}
	}
	if n.Content.Inbox != nil && n.SendAt.IsZero() {
		if err := s.keepContent(first, copies, content.Kept(&n.Content, p.body)); err != nil {
			return err
		}
	}
	s.stmts.insertContent.BindInt64(1, first)
	s.stmts.insertContent.BindBytes(2, p.body)
	return exec(s.stmts.insertContent)
}

func (s *Store) storeCopy(r *recipient, n *notification.Notification, p *prepared, first int64, sole bool) error {
	s.touch(r)
	s.pos++
	offset := int16(soleCopy)
	if !sole {
		offset = int16(s.pos - first)
	}
	status, seq := notification.Scheduled, uint64(0)
	if n.SendAt.IsZero() {
		r.lastSeq++
		status, seq = notification.Stored, r.lastSeq
		s.tx.pending++
	} else {
		s.due.add(scheduled{at: millis.Of(n.SendAt), r: r, pos: s.pos})
		s.tx.scheduled++
	}
	e := newEntry(s.pos, n, offset)
	e.set(flagStaged)
	r.lastPos = s.pos
	r.active++
	s.mu.Lock()
	r.list = append(r.list, e)
	s.tailFor(s.pos).add(s.pos, indexKey(p.id, r.key))
	s.mu.Unlock()
	s.expiries.wakeBy(r, e.expires())
	s.tx.appends++
	s.arrived++
	s.tx.batch.Stored = append(s.tx.batch.Stored, mailbox.Item{Pos: s.pos, Recipient: r.name, Seq: seq, Escalates: n.Steps != nil, N: n})
	if n.Steps != nil {
		if err := s.armed(r, s.pos, n); err != nil {
			return err
		}
	}
	if !packs(n) {
		return s.insertRow(s.pos, r.key, n, p, status, seq, offset)
	}
	return s.pack(r, n, p, seq, offset)
}

func (s *Store) insertRow(pos int64, key uint32, n *notification.Notification, p *prepared, status notification.Status, seq uint64, offset int16) error {
	q := s.stmts.insertNote
	q.BindInt64(1, pos)
	q.BindInt64(2, int64(key))
	q.BindInt64(3, int64(status))
	q.BindInt64(4, ackColumn(n))
	q.BindInt64(5, int64(n.Priority))
	q.BindInt64(6, int64(offset))
	q.BindInt64(7, int64(seq))
	q.BindInt64(8, millis.Of(n.CreatedAt))
	q.BindInt64(9, millis.Of(n.SendAt))
	q.BindInt64(10, millis.Of(n.ExpiresAt))
	q.BindInt64(11, p.hash)
	q.BindText(12, n.ID)
	if n.CollapseKey == "" {
		q.BindNull(13)
	} else {
		q.BindText(13, n.CollapseKey)
	}
	return exec(q)
}

// refuse fills res for a publish that may not be stored. Such a publish may still be a duplicate of a stored one.
func (s *Store) refuse(a *mailbox.Append, name string, p *prepared, res *mailbox.AppendResult) error {
	r, err := s.known(a.N.App, name)
	known := false
	if err == nil && r != nil {
		known, _, err = s.findDuplicate(r, a.N, p, res)
	}
	if !known {
		*res = mailbox.AppendResult{Err: a.Refused}
	}
	return err
}

// checkDuplicate fills res if the recipient has, or recently had, a notification with this id. If the time for duplicates of that one is
// over, it deletes its row.
func (s *Store) checkDuplicate(r *recipient, n *notification.Notification, p *prepared, res *mailbox.AppendResult) (known bool, err error) {
	known, over, err := s.findDuplicate(r, n, p, res)
	if err == nil && over != 0 {
		err = s.deleteRow(over)
	}
	return known, err
}

// findDuplicate fills res if the recipient has, or recently had, a notification with this id. over is the position of one whose time for
// duplicates is over.
func (s *Store) findDuplicate(r *recipient, n *notification.Notification, p *prepared, res *mailbox.AppendResult) (known bool, over int64, err error) {
	old, ok, err := s.findRow(r, p.id, n.ID)
	if err != nil || !ok {
		return false, 0, err
	}
	now := millis.Of(n.CreatedAt)
	switch {
	case !old.open && old.settled < now-notification.DedupWindow.Milliseconds():
		return false, old.pos, nil
	case old.hash != p.hash:
		res.Err = fmt.Errorf("notification %s to %s: %w", n.ID, r.name, mailbox.ErrConflict)
		return true, 0, nil
	}
	rec := old.record(r.name, now)
	res.Duplicate, res.Status, res.ExpiresAt = true, rec.Status, rec.ExpiresAt
	if old.open && rec.Status != notification.Expired {
		if e := r.find(old.pos); e != nil {
			res.Status = e.status()
		}
	}
	return true, 0, nil
}

func (s *Store) deleteRow(pos int64) error {
	s.stmts.deleteNote.BindInt64(1, pos)
	if err := exec(s.stmts.deleteNote); err != nil {
		return err
	}
	if s.stmts.conn.Changes() == 0 {
		if err := s.takeOut(pos); err != nil {
			return err
		}
	}
	s.stmts.deleteNack.BindInt64(1, pos)
	if err := exec(s.stmts.deleteNack); err != nil {
		return err
	}
	s.stmts.deleteReply.BindInt64(1, pos)
	if err := exec(s.stmts.deleteReply); err != nil {
		return err
	}
	s.stmts.deleteTried.BindInt64(1, pos)
	if err := exec(s.stmts.deleteTried); err != nil {
		return err
	}
	s.stmts.deleteAcks.BindInt64(1, pos)
	return exec(s.stmts.deleteAcks)
}

// replaceCollapsed settles what n replaces.
func (s *Store) replaceCollapsed(r *recipient, n *notification.Notification) error {
	hash := collapseHash(n.CollapseKey)
	if hash == 0 {
		return nil
	}
	for i := range r.list {
		e := &r.list[i]
		if e.collapse != hash || e.is(flagLeaving) || e.expires() <= millis.Of(n.CreatedAt) {
			continue
		}
		old, ok, err := s.row(e.pos)
		if err != nil {
			return err
		}
		if !ok || old.collapse != n.CollapseKey {
			continue
		}
		mark := s.notes.TakeMark(e.pos)
		err = s.settleEntry(r, e, ending{
			id: old.id, as: notification.Replaced, at: millis.Of(n.CreatedAt), deliveredAt: mark.DeliveredAt, attempts: mark.Attempts, mark: mark,
		})
		if err != nil {
			return err
		}
	}
	return nil
}
