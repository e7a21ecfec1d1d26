package objectdb

import (
	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/objects/object/objectstore"
	"godwit.dev/godwit/internal/store/millis"
	"godwit.dev/godwit/internal/store/postgres/pgdb"
	"godwit.dev/godwit/internal/store/regs"
)

// touchOp is background work: its writes may be lost.
type touchOp struct {
	batch []objectstore.Touch
	done  func(error)
}

// touchRows are the clients of one touchOp.
const touchRows = 250

// Touch implements objectstore.Store.
func (s *Store) Touch(batch []objectstore.Touch, done func(error)) {
	for len(batch) > 0 {
		n := min(len(batch), touchRows)
		op := &touchOp{batch: batch[:n]}
		if batch = batch[n:]; len(batch) == 0 {
			op.done = done // the last op reports completion: ops are written in order
		}
		if !s.touches.add("", op) {
			done(pgdb.Error(noteProgress, mailbox.ErrClosed))
			return
		}
	}
}

// touchClients leaves progress unchanged if none is given, or if a later session has reported its own. An update within the same day
// changes no index.
const touchClients = `UPDATE progress p SET seen_day = greatest(p.seen_day, (v.seen_at / 86400000)::integer), seen_at = greatest(p.seen_at, v.seen_at),
		versions = CASE WHEN v.versions IS NULL OR v.opened_at < p.opened_at THEN p.versions ELSE v.versions END,
		opened_at = greatest(p.opened_at, v.opened_at)
	FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bytea[], $7::bigint[])
		AS v(app, recipient, grp, device, seen_at, versions, opened_at)
	JOIN client c ON (c.app, c.recipient, c.grp, c.device) = (v.app, v.recipient, v.grp, v.device)
	WHERE p.client = c.id`

// writeTouches commits the progress of clients. If a client has several ops, the last one with progress counts.
func (s *Store) writeTouches(ops []*touchOp) {
	type touch struct {
		seenAt   int64
		progress []byte
		opened   int64 // 0: there is no progress
	}
	last := make(map[objectstore.ClientID]touch)
	for _, op := range ops {
		for i := range op.batch {
			v := &op.batch[i]
			t := last[v.ID]
			t.seenAt = max(t.seenAt, v.SeenAt.UnixMilli())
			if v.Progress != nil {
				t.progress, t.opened = regs.EncodeProgress(v.Progress), millis.Of(v.Opened)
			}
			last[v.ID] = t
		}
	}
	var ids clientColumns
	var seen, opened []int64
	var versions [][]byte
	for _, id := range sorted(last) {
		ids.add(id)
		seen, versions, opened = append(seen, last[id].seenAt), append(versions, last[id].progress), append(opened, last[id].opened)
	}
	statements := &pgx.Batch{}
	statements.Queue(touchClients, ids.apps, ids.recipients, ids.groups, ids.devices, seen, versions, opened)
	err := s.exec(noteProgress, statements)
	for _, op := range ops {
		if op.done != nil {
			op.done(err)
		}
	}
}
