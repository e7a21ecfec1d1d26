package mailboxdb

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/store/notes"
)

// eraseSlice is the number of an erased recipient's rows that one commit deletes.
const eraseSlice = 500

// Erase implements mailbox.Store. The first commit deletes the recipient and its pending copies; other rows follow in slices. If this node
// dies meanwhile, another one finishes. Erase fails with mailbox.ErrNotFound for an unknown recipient.
func (s *Store) Erase(ctx context.Context, appName, name string) error {
	s.notes.Forget(appName, name)
	l := s.lanes[s.laneOf(appName, name)]
	b := &box{Address: mailbox.Address{App: appName, Recipient: name}}
	err := s.inLanes(ctx, []*lane{l}, func(*lane) upkeep {
		return func(ctx context.Context, tx pgx.Tx, _ *tableSet, did *outcome) error {
			delete(l.keys, b.Address)
			if err := markErased(ctx, tx, b.Address, s.nowMS()); err != nil {
				return err
			}
			return eraseRecipient(ctx, tx, b, did)
		}
	})
	if err != nil {
		return s.storeError("erase recipient "+name, err)
	}
	if b.key == 0 {
		return fmt.Errorf("recipient %s: %w", name, mailbox.ErrNotFound)
	}
	// An erasure that has begun is completed, even if its caller has stopped waiting.
	return s.storeError("erase recipient "+name, s.deleteRows(context.WithoutCancel(ctx), b.key))
}

// eraseMark is how long the mark of an erasure stays: all nodes have written their sightings of before.
const eraseMark = time.Minute

// markErased notes when a recipient was erased. Sightings of before that another node has not written yet are void.
func markErased(ctx context.Context, tx pgx.Tx, who mailbox.Address, now int64) error {
	b := &pgx.Batch{}
	b.Queue("DELETE FROM erased WHERE at < $1", now-eraseMark.Milliseconds())
	b.Queue("INSERT INTO erased (hash, at) VALUES ($1, $2) ON CONFLICT (hash) DO UPDATE SET at = greatest(erased.at, excluded.at)", erasedHash(who), now)
	return tx.SendBatch(ctx, b).Close()
}

// erasedHash is a recipient in the table of marks, which must not keep its name.
func erasedHash(who mailbox.Address) int64 {
	return int64(nameHash(who.App, who.Recipient)) // any 64 bits
}

// withoutErased drops the sightings of recipients that were erased since.
func withoutErased(ctx context.Context, conn *pgx.Conn, seen []notes.Sighting) ([]notes.Sighting, error) {
	hashes, ats := make([]int64, len(seen)), make([]int64, len(seen))
	for i := range seen {
		hashes[i], ats[i] = erasedHash(seen[i].Address), seen[i].At
	}
	rows, err := conn.Query(ctx, "SELECT e.hash FROM unnest($1::bigint[], $2::bigint[]) AS q(hash, at) JOIN erased e ON e.hash = q.hash AND e.at >= q.at", hashes, ats)
	if err != nil {
		return nil, err
	}
	gone, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil || len(gone) == 0 {
		return seen, err
	}
	return slices.DeleteFunc(slices.Clone(seen), func(s notes.Sighting) bool { return slices.Contains(gone, erasedHash(s.Address)) }), nil
}

// eraseRecipient removes a recipient from the store and records that its rows must be deleted. If there is none, b has no key.
func eraseRecipient(ctx context.Context, tx pgx.Tx, b *box, did *outcome) error {
	b.key = 0
	if err := readKeys(ctx, tx.Conn(), []*box{b}); err != nil || b.key == 0 {
		return err
	}
	tag, err := tx.Exec(ctx, lockRecipients, []int64{b.key})
	if err != nil {
		return err
	}
	if tag.RowsAffected() == 0 { // another node was faster
		b.key = 0
		return nil
	}
	a := &asking{}
	a.ask("WITH p AS (DELETE FROM pending WHERE recipient = $1 RETURNING seq) SELECT count(*) FILTER (WHERE seq > 0), count(*) FILTER (WHERE seq = 0) FROM p",
		func(rows pgx.Rows) error {
			_, err := pgx.ForEachRow(rows, []any{&did.pending, &did.scheduled}, func() error {
				did.pending, did.scheduled = -did.pending, -did.scheduled
				return nil
			})
			return err
		}, b.key)
	for _, sql := range []string{
		"DELETE FROM device WHERE recipient = $1", "DELETE FROM device_ack WHERE recipient = $1", "DELETE FROM nack WHERE recipient = $1", "DELETE FROM attempt WHERE recipient = $1",
		"DELETE FROM escalation WHERE recipient = $1", "DELETE FROM reply WHERE recipient = $1", "DELETE FROM recipient WHERE key = $1", "INSERT INTO erasure (recipient) VALUES ($1)",
	} {
		a.ask(sql, nil, b.key)
	}
	return a.send(ctx, tx.Conn())
}

// deleteRows deletes the rows of an erased recipient.
func (s *Store) deleteRows(ctx context.Context, key int64) error {
	err := s.tables.with(ctx, func(set *tableSet) error {
		for _, h := range set.hours {
			var dones string
			for _, d := range set.dones {
				dones += fmt.Sprintf(", d%[1]d AS (DELETE FROM done_%[1]d WHERE pos IN (SELECT pos FROM n))", d)
			}
			if err := s.deleteSlices(ctx, fmt.Sprintf(`WITH n AS (
					DELETE FROM note_%[1]d WHERE recipient = $1 AND pos IN (SELECT pos FROM note_%[1]d WHERE recipient = $1 LIMIT $2) RETURNING pos
				)%[2]s SELECT count(*) FROM n`, h, dones), key); err != nil {
				return err
			}
		}
		for _, d := range set.days {
			if err := s.deleteSlices(ctx, fmt.Sprintf(`WITH n AS (
					DELETE FROM stub_%[1]d WHERE recipient = $1 AND pos IN (SELECT pos FROM stub_%[1]d WHERE recipient = $1 LIMIT $2) RETURNING pos
				) SELECT count(*) FROM n`, d), key); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return s.db.Do(ctx, "end an erasure", func(ctx context.Context, tx pgx.Tx) error {
		if err := eraseInbox(ctx, tx, key); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "DELETE FROM attempt WHERE recipient = $1", key); err != nil { // an acknowledgement may have written rows meanwhile
			return err
		}
		_, err := tx.Exec(ctx, "DELETE FROM erasure WHERE recipient = $1", key)
		return err
	})
}

// deleteSlices repeats a statement, which deletes some rows of a key and counts them, until no rows are left.
func (s *Store) deleteSlices(ctx context.Context, sql string, key int64) error {
	for n := eraseSlice; n == eraseSlice; {
		err := s.db.Do(ctx, "delete rows", func(ctx context.Context, tx pgx.Tx) error {
			return tx.QueryRow(ctx, sql, key, eraseSlice).Scan(&n)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// resumeErasures finishes the erasures that a dead node began.
func (s *Store) resumeErasures(ctx context.Context) error {
	rows, err := s.db.Pool().Query(ctx, "SELECT recipient FROM erasure")
	if err != nil {
		return err
	}
	keys, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	for _, key := range keys {
		if err == nil {
			err = s.deleteRows(ctx, key)
		}
	}
	return err
}
