package mailboxdb

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/store/notes"
	"godwit.dev/godwit/internal/store/postgres/pgdb"
)

// keepNoting writes notes regularly, until the store is closed.
func (s *Store) keepNoting() {
	tick := time.NewTicker(notes.Every)
	defer tick.Stop()
	for {
		select {
		case <-s.closing:
			return
		case <-tick.C:
			s.writeNotes(s.notes.Take(s.nowMS()))
		}
	}
}

// Mark implements mailbox.Store.
func (s *Store) Mark(batch []mailbox.Mark) { s.notes.Mark(batch, s.nowMS()) }

// Seen implements mailbox.Store.
func (s *Store) Seen(batch []mailbox.Seen) { s.notes.Seen(batch) }

// writeNotes writes marks and sightings, slice by slice. After an error, this slice and the later ones of the same kind are lost.
func (s *Store) writeNotes(marks []notes.Mark, seen []notes.Sighting) {
	slices.SortFunc(seen, func(a, b notes.Sighting) int { return compareAddresses(a.Address, b.Address) })
	for part := range slices.Chunk(seen, notes.Slice) {
		if err := s.writeSeen(part); err != nil {
			s.cfg.Log.Warn("sightings were not noted", "count", len(seen), "error", err)
			break
		}
	}
	for part := range slices.Chunk(marks, notes.Slice) {
		if err := s.writeMarks(part); err != nil {
			s.cfg.Log.Warn("deliveries were not noted", "count", len(marks), "error", err)
			break
		}
	}
}

// commitSoon lets a transaction answer before it is on disk, for data that may be lost.
const commitSoon = "SET LOCAL synchronous_commit = off"

func (s *Store) writeMarks(marks []notes.Mark) error {
	apps, names := make([]string, len(marks)), make([]string, len(marks))
	for i := range marks {
		apps[i], names[i] = marks[i].App, marks[i].Recipient
	}
	patient := true
	return s.db.Do(context.Background(), "note deliveries", func(ctx context.Context, tx pgx.Tx) error {
		keys, err := lockNoted(ctx, tx, apps, names, &patient)
		if err != nil {
			return err
		}
		b := &pgx.Batch{}
		var w tried
		for i, m := range marks {
			if keys[i] == 0 {
				continue
			}
			if m.DeliveredAt > 0 || m.Attempts > 0 {
				b.Queue(markPending, keys[i], m.Pos, m.DeliveredAt, m.Attempts)
			}
			w.add(keys[i], m.Pos, s.nowMS(), m.Tried(), false)
		}
		w.ask(s, func(sql string, args ...any) { b.Queue(sql, args...) })
		return tx.SendBatch(ctx, b).Close()
	})
}

// lockNoted begins a transaction that may be lost. The first try waits a moment for recipients that another transaction has locked. Later
// tries skip these recipients, and their notes are lost.
func lockNoted(ctx context.Context, tx pgx.Tx, apps, names []string, patient *bool) ([]int64, error) {
	if _, err := tx.Exec(ctx, commitSoon); err != nil {
		return nil, err
	}
	if _, err := tx.Exec(ctx, waitForRows); err != nil {
		return nil, err
	}
	keys, err := lockNamed(ctx, tx, apps, names, *patient)
	*patient = !pgdb.Locked(err)
	return keys, err
}

// noteDevices writes the times when devices were last seen. A new device is on disk before its row can be read: from then on, also after a
// crash of the database, notifications that every device must acknowledge wait for it.
const noteDevices = `WITH q AS MATERIALIZED (SELECT * FROM unnest($1::bigint[], $2::text[], $3::bigint[]) AS q(recipient, name, last_seen)
	), noted AS (
		INSERT INTO device (recipient, name, last_seen) SELECT * FROM q
		ON CONFLICT (recipient, name) DO UPDATE SET last_seen = greatest(device.last_seen, excluded.last_seen)
	)
	SELECT set_config('synchronous_commit', reset_val, true) FROM pg_settings WHERE name = 'synchronous_commit' AND EXISTS (
		SELECT FROM q WHERE NOT EXISTS (SELECT FROM device d WHERE d.recipient = ANY(ARRAY[q.recipient]) AND d.name = q.name))`

// writeSeen writes the times at which recipients and their devices were seen last.
func (s *Store) writeSeen(seen []notes.Sighting) error {
	seen, err := s.makeSeen(context.Background(), seen)
	if err != nil {
		return err
	}
	apps, names, ats := make([]string, len(seen)), make([]string, len(seen)), make([]int64, len(seen))
	for i := range seen {
		apps[i], names[i], ats[i] = seen[i].App, seen[i].Recipient, seen[i].At
	}
	patient := true
	return s.db.Do(context.Background(), "note who was seen", func(ctx context.Context, tx pgx.Tx) error {
		keys, err := lockNoted(ctx, tx, apps, names, &patient)
		if err != nil {
			return err
		}
		var owners, last []int64
		var devices []string
		for i := range seen {
			for name, at := range seen[i].Devices {
				if keys[i] != 0 {
					owners, devices, last = append(owners, keys[i]), append(devices, name), append(last, at)
				}
			}
		}
		b := &pgx.Batch{}
		b.Queue("UPDATE recipient r SET last_seen = q.at FROM unnest($1::bigint[], $2::bigint[]) AS q(key, at) WHERE r.key = q.key AND r.last_seen < q.at", keys, ats)
		b.Queue(noteDevices, owners, devices, last)
		return tx.SendBatch(ctx, b).Close()
	})
}

// makeSeen makes the recipients that were seen for the first time, and returns the sightings to write. A sighting that waited while its recipient was
// erased, by whichever node, counts no more. Keys are read before the marks of erasures: a recipient without a key either has its mark by then or never
// had a row.
func (s *Store) makeSeen(ctx context.Context, seen []notes.Sighting) ([]notes.Sighting, error) {
	conn, err := s.db.Pool().Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Release()
	keys, err := readSeen(ctx, conn.Conn(), seen)
	if err != nil {
		return nil, err
	}
	if seen, err = withoutErased(ctx, conn.Conn(), seen); err != nil {
		return nil, err
	}
	var unknown []*box
	for i := range seen {
		if keys[seen[i].Address] == 0 {
			unknown = append(unknown, &box{Address: seen[i].Address})
		}
	}
	if len(unknown) == 0 {
		return seen, nil
	}
	return seen, makeRecipients(ctx, conn.Conn(), unknown)
}

// readSeen reads the keys of recipients that were seen.
func readSeen(ctx context.Context, conn *pgx.Conn, seen []notes.Sighting) (map[mailbox.Address]int64, error) {
	boxes, keys := make([]*box, len(seen)), make(map[mailbox.Address]int64, len(seen))
	for i := range seen {
		boxes[i] = &box{Address: seen[i].Address}
	}
	err := readKeys(ctx, conn, boxes)
	for _, b := range boxes {
		keys[b.Address] = b.key
	}
	return keys, err
}
