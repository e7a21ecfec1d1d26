package mailboxdb

import (
	"fmt"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/store/millis"
)

// packing is the part of a publish that is not written yet: copies at consecutive positions within a stretch.
type packing struct {
	first  int64 // position of the first
	offset int16 // its body offset
	copies []packed

	bytes, ends []byte // buffers of the pack's row, reused for the next
}

// packs reports whether copies of a notification are packed. They are not if they are scheduled, or have dependent rows that name their
// position.
func packs(n *notification.Notification) bool {
	return n.SendAt.IsZero() && n.Steps == nil && n.Ack != notification.AckAll && n.ReplyBy.IsZero()
}

// pack stores a copy together with others of its publish, once all of them are gathered.
func (s *Store) pack(r *recipient, n *notification.Notification, p *prepared, seq uint64, offset int16) error {
	k := &s.packing
	if len(k.copies) > 0 && s.pos%s.stretch() == 0 {
		if err := s.writePack(n, p); err != nil {
			return err
		}
	}
	if len(k.copies) == 0 {
		k.first, k.offset = s.pos, offset
	}
	k.copies = append(k.copies, packed{r.key, seq})
	return nil
}

// writePack writes the gathered copies: a few as rows, more as one pack.
func (s *Store) writePack(n *notification.Notification, p *prepared) error {
	k := &s.packing
	list := k.copies
	k.copies = k.copies[:0]
	if len(list) < s.cfg.minPacked {
		for i, c := range list {
			if err := s.insertRow(k.first+int64(i), c.recipient, n, p, notification.Stored, c.seq, k.offset+int16(i)); err != nil {
				return err
			}
		}
		return nil
	}
	k.bytes = appendCopies(k.bytes[:0], list)
	if need := endBytes * len(list); cap(k.ends) < need {
		k.ends = make([]byte, need)
	}
	q := s.stmts.insertPack
	q.BindInt64(1, k.first)
	q.BindInt64(2, int64(k.offset))
	q.BindInt64(3, ackColumn(n))
	q.BindInt64(4, int64(n.Priority))
	q.BindInt64(5, millis.Of(n.CreatedAt))
	q.BindInt64(6, millis.Of(n.ExpiresAt))
	q.BindInt64(7, p.hash)
	q.BindText(8, n.ID)
	if n.CollapseKey == "" {
		q.BindNull(9)
	} else {
		q.BindText(9, n.CollapseKey)
	}
	q.BindBytes(10, k.bytes)
	q.BindBytes(11, k.ends[:endBytes*len(list)])
	return exec(q)
}

// packOf returns the pack of the copy at a position; nil: the copy is not packed, or has left its pack. Only the writer may call it, and
// the result is valid until the next call.
func (s *Store) packOf(pos int64) (*pack, error) {
	p := &s.packRead
	if ok, err := p.find(s.stmts.readPack, pos); err != nil || !ok || p.isOut(pos) {
		return nil, err
	}
	return p, nil
}

// savePack writes changed outcomes, and deletes a pack that all copies have left. The row keeps its size, so it takes no further space.
func (s *Store) savePack(p *pack) error {
	if p.left() {
		p.forget()
		s.stmts.deletePack.BindInt64(1, p.shared.pos)
		return exec(s.stmts.deletePack)
	}
	s.stmts.savePack.BindInt64(1, p.shared.pos)
	s.stmts.savePack.BindBytes(2, p.ends)
	return exec(s.stmts.savePack)
}

// moveOut moves a packed copy to a row of its own. It does nothing if the copy already has one.
func (s *Store) moveOut(pos int64) error {
	l := leaving{s: s}
	if err := l.outIf(pos, func(*row) bool { return true }); err != nil {
		return err
	}
	return l.save()
}

// rowOut writes the row of a copy that leaves its pack. It does not save the pack.
func (s *Store) rowOut(p *pack, r *row) error {
	if err := r.write(s.stmts.copyNote); err != nil {
		return fmt.Errorf("give the packed notification at %d a row: %w", r.pos, err)
	}
	p.end(r.pos)[0] = endOut
	return nil
}

// leaving moves packed copies to rows, in the order of their positions, and writes each pack once: when it reaches the next pack, or when
// its caller calls save.
type leaving struct {
	s       *Store
	changed bool // the pack that was read last has changes
}

// change runs a statement that changes the row at a position. A packed copy gets a row, which to changes; if the disk is full, change calls
// instead for it.
func (l *leaving) change(st *sqlite.Stmt, pos int64, to func(*row), instead func() error) error {
	if err := exec(st); err != nil || l.s.stmts.conn.Changes() > 0 {
		return err
	}
	if l.s.noRoom() {
		return instead()
	}
	return l.outIf(pos, func(r *row) bool {
		to(r)
		return true
	})
}

// outIf moves a packed copy to a row of its own with change's changes, if change returns true.
func (l *leaving) outIf(pos int64, change func(*row) bool) error {
	s := l.s
	if !s.packRead.holds(pos) {
		if err := l.save(); err != nil {
			return err
		}
	}
	p, err := s.packOf(pos)
	if err != nil || p == nil {
		return err
	}
	r, _ := p.row(pos)
	if !change(&r) {
		return nil
	}
	l.changed = true
	return s.rowOut(p, &r)
}

func (l *leaving) save() error {
	if !l.changed {
		return nil
	}
	l.changed = false
	return l.s.savePack(&l.s.packRead)
}

// takeOut forgets a packed copy.
func (s *Store) takeOut(pos int64) error {
	p, err := s.packOf(pos)
	if err != nil || p == nil {
		return err
	}
	p.end(pos)[0] = endOut
	return s.savePack(p)
}

// erasePacked removes a recipient from the pack of a position, if there is one, after its copy has left that pack.
func (s *Store) erasePacked(pos int64, key uint32) error {
	p := &s.packRead
	if ok, err := p.find(s.stmts.readPack, pos); err != nil || !ok || !p.erase(key) {
		return err
	}
	s.packing.bytes = appendCopies(s.packing.bytes[:0], p.copies)
	s.stmts.saveCopies.BindInt64(1, p.shared.pos)
	s.stmts.saveCopies.BindBytes(2, s.packing.bytes)
	return exec(s.stmts.saveCopies)
}

// endPacked stores a copy's outcome in its pack.
func (s *Store) endPacked(pos int64, o *outcome) error {
	p, err := s.packOf(pos)
	if err != nil || p == nil {
		return err
	}
	p.setEnd(pos, o)
	return s.savePack(p)
}

// copyNoteSQL stores a row with its current values.
const copyNoteSQL = "INSERT OR IGNORE INTO notification(" + noteColumns + ") VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16,?17)"

// write stores the row by a statement of copyNoteSQL.
func (r *row) write(st *sqlite.Stmt) error {
	open, ack := r.columns()
	for i, v := range [...]int64{
		r.pos, int64(r.recipient), open, int64(r.status), ack, int64(r.priority), int64(r.attempts), int64(r.offset), int64(r.seq),
		r.created, r.sendAt, r.expires, r.delivered, r.settled, r.hash,
	} {
		st.BindInt64(i+1, v)
	}
	st.BindText(16, r.id)
	if r.collapse == "" {
		st.BindNull(17)
	} else {
		st.BindText(17, r.collapse)
	}
	return exec(st)
}
