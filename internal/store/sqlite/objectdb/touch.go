package objectdb

import (
	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/objects/object/objectstore"
	"godwit.dev/godwit/internal/store/regs"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

// touchOp is background work: its writes may be lost.
type touchOp struct {
	batch []objectstore.Touch
	bytes int
	done  func(error)
}

// touchRows limits the clients of one touchOp, as for all background work.
const touchRows = 250

// Touch implements objectstore.Store.
func (s *Store) Touch(batch []objectstore.Touch, done func(error)) {
	for len(batch) > 0 {
		n := min(len(batch), touchRows)
		op := &touchOp{batch: batch[:n]}
		for i := range op.batch {
			op.bytes += 64 + 12*len(op.batch[i].Progress)
		}
		if batch = batch[n:]; len(batch) == 0 {
			op.done = done // the last op reports completion: ops are written in order
		}
		s.db.SubmitBulk(op)
	}
}

// Size implements sqlitedb.Op.
func (op *touchOp) Size() (rows, bytes int) { return len(op.batch), op.bytes }

// Done implements sqlitedb.Op.
func (op *touchOp) Done(err error) {
	if op.done != nil {
		op.done(storeError("note what clients have", err))
	}
}

// Apply implements sqlitedb.Op.
func (op *touchOp) Apply(c *sqlite.Conn) error {
	for i := range op.batch {
		t := &op.batch[i]
		id, err := findClient(c, t.ID)
		if err != nil {
			return err
		}
		if id == 0 {
			continue
		}
		if t.Progress == nil {
			err = sqlitedb.Each(c, "UPDATE progress SET seen_at = max(seen_at, ?2) WHERE client = ?1", []any{id, t.SeenAt.UnixMilli()}, nil)
		} else {
			err = sqlitedb.Each(c, "UPDATE progress SET seen_at = max(seen_at, ?2), versions = ?3 WHERE client = ?1", []any{id, t.SeenAt.UnixMilli(), regs.EncodeProgress(t.Progress)}, nil)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
