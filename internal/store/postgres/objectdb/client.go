package objectdb

import (
	"cmp"
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/objects/object"
	"godwit.dev/godwit/internal/objects/object/objectstore"
	"godwit.dev/godwit/internal/store/postgres/pgdb"
	"godwit.dev/godwit/internal/store/regs"
)

const (
	storeRegistrations = "store registrations"
	noteProgress       = "note what clients have"
	readRegistrations  = "read registrations"
)

func compareClients(a, b objectstore.ClientID) int {
	return cmp.Or(cmp.Compare(a.App, b.App), cmp.Compare(a.Recipient, b.Recipient), cmp.Compare(a.Group, b.Group), cmp.Compare(a.Device, b.Device))
}

// saveOp replaces a client's registrations.
type saveOp struct {
	id                objectstore.ClientID
	seenAt            int64
	objects, progress []byte // encoded; empty objects: the client has no registrations any more
	done              func(error)
}

// Save implements objectstore.Store.
func (s *Store) Save(v *objectstore.Save) {
	op := &saveOp{id: v.ID, seenAt: v.SeenAt.UnixMilli(), done: v.Done}
	if len(v.Keys) > 0 {
		op.objects, op.progress = regs.EncodeKeys(v.ID.Group, v.Keys), regs.EncodeProgress(v.Progress)
	}
	if !s.saves.add(v.ID.App, op) {
		v.Done(pgdb.Error(storeRegistrations, mailbox.ErrClosed))
	}
}

// clientColumns are arrays of clients, for unnest.
type clientColumns struct{ apps, recipients, groups, devices []string }

func (c *clientColumns) add(v objectstore.ClientID) {
	c.apps, c.recipients = append(c.apps, v.App), append(c.recipients, v.Recipient)
	c.groups, c.devices = append(c.groups, v.Group), append(c.devices, v.Device)
}

const (
	saveClients = `WITH saved AS (
			INSERT INTO client (app, recipient, grp, device, objects)
			SELECT v.app, v.recipient, v.grp, v.device, v.objects
			FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bytea[]) WITH ORDINALITY AS v(app, recipient, grp, device, objects, nth) ORDER BY v.nth
			ON CONFLICT (app, recipient, grp, device) DO UPDATE SET objects = excluded.objects
			RETURNING id, app, recipient, grp, device)
		INSERT INTO progress AS p (client, seen_day, seen_at, versions)
		SELECT saved.id, v.seen_at / 86400000, v.seen_at, v.versions FROM saved
		JOIN unnest($1::text[], $2::text[], $3::text[], $4::text[], $6::bigint[], $7::bytea[]) AS v(app, recipient, grp, device, seen_at, versions)
			ON (saved.app, saved.recipient, saved.grp, saved.device) = (v.app, v.recipient, v.grp, v.device)
		ORDER BY saved.id
		ON CONFLICT (client) DO UPDATE SET seen_day = greatest(p.seen_day, excluded.seen_day), seen_at = greatest(p.seen_at, excluded.seen_at),
			versions = excluded.versions`
	forgetClients = `WITH gone AS (
			DELETE FROM client c USING unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS v(app, recipient, grp, device)
			WHERE (c.app, c.recipient, c.grp, c.device) = (v.app, v.recipient, v.grp, v.device) RETURNING c.id)
		DELETE FROM progress p USING gone WHERE p.client = gone.id`
)

// writeSaves commits registrations. If a client saved several sets, the last one counts.
func (s *Store) writeSaves(ops []*saveOp) {
	last := make(map[objectstore.ClientID]*saveOp, len(ops))
	for _, op := range ops {
		if before := last[op.id]; before != nil {
			op.seenAt = max(op.seenAt, before.seenAt)
		}
		last[op.id] = op
	}
	var saved, gone clientColumns
	var objects, versions [][]byte
	var seen []int64
	for _, id := range sorted(last) {
		op := last[id]
		if len(op.objects) == 0 {
			gone.add(id)
			continue
		}
		saved.add(id)
		objects, versions, seen = append(objects, op.objects), append(versions, op.progress), append(seen, op.seenAt)
	}
	statements := &pgx.Batch{}
	if len(seen) > 0 {
		statements.Queue(saveClients, saved.apps, saved.recipients, saved.groups, saved.devices, objects, seen, versions)
	}
	if len(gone.apps) > 0 {
		statements.Queue(forgetClients, gone.apps, gone.recipients, gone.groups, gone.devices)
	}
	err := s.exec(storeRegistrations, statements)
	for _, op := range ops {
		op.done(err)
	}
}

// exec runs statements in one transaction.
func (s *Store) exec(op string, statements *pgx.Batch) error {
	return s.db.Known(s.db.Send(context.Background(), op, statements, func(results pgx.BatchResults) error {
		for range statements.Len() {
			if _, err := results.Exec(); err != nil {
				return err
			}
		}
		return nil
	}))
}

const selectClients = `SELECT c.app, c.recipient, c.grp, c.device, c.objects, p.seen_at, p.versions
	FROM client c JOIN progress p ON p.client = c.id WHERE `

func scanClient(rows pgx.Rows) (v objectstore.Saved, err error) {
	var objects, versions []byte
	var seenAt int64
	if err := rows.Scan(&v.ID.App, &v.ID.Recipient, &v.ID.Group, &v.ID.Device, &objects, &seenAt, &versions); err != nil {
		return v, err
	}
	return regs.Client(v.ID, objects, seenAt, versions)
}

// clients reads stored clients that meet a condition.
func (s *Store) clients(ctx context.Context, where string, args ...any) (found []objectstore.Saved, err error) {
	err = s.db.Each(ctx, readRegistrations, selectClients+where, args, func(rows pgx.Rows) error {
		v, err := scanClient(rows)
		found = append(found, v)
		return err
	})
	return found, err
}

// Load implements objectstore.Store.
func (s *Store) Load(ctx context.Context, id objectstore.ClientID) (*objectstore.Saved, error) {
	found, err := s.clients(ctx, "c.app = $1 AND c.recipient = $2 AND c.grp = $3 AND c.device = $4", id.App, id.Recipient, id.Group, id.Device)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return &found[0], nil
}

// Clients implements objectstore.Store.
func (s *Store) Clients(ctx context.Context, app, recipient string) ([]objectstore.Saved, error) {
	return s.clients(ctx, "c.app = $1 AND c.recipient = $2 ORDER BY c.grp, c.device", app, recipient)
}

// Watchers implements objectstore.Store. It scans all registrations: only people query an object's watchers, and an index would cost
// devices more than a scan costs these people.
func (s *Store) Watchers(ctx context.Context, app string, k object.Key, after int64, look int) (found []objectstore.Watcher, next int64, err error) {
	const query = `SELECT c.id, c.maybe, c.recipient, c.grp, c.device, CASE WHEN c.maybe THEN c.objects END, coalesce(p.seen_at, 0), p.versions
		FROM (SELECT *, position($3::bytea IN objects) > 0 AS maybe FROM client WHERE app = $1 AND id > $2 ORDER BY id LIMIT $4) c
		LEFT JOIN progress p ON c.maybe AND p.client = c.id ORDER BY c.id`
	seen := 0
	err = s.db.Each(ctx, readRegistrations, query, []any{app, after, []byte(k.Object), look}, func(rows pgx.Rows) error {
		seen++
		id, maybe, seenAt := objectstore.ClientID{App: app}, false, int64(0)
		var objects, versions []byte
		if err := rows.Scan(&next, &maybe, &id.Recipient, &id.Group, &id.Device, &objects, &seenAt, &versions); err != nil || !maybe {
			return err
		}
		v, err := regs.Client(id, objects, seenAt, versions)
		if w, ok := regs.Watcher(&v, k); ok {
			found = append(found, w)
		}
		return err
	})
	if seen < look {
		next = 0
	}
	return found, next, err
}

// Away implements objectstore.Store.
func (s *Store) Away(ctx context.Context, before time.Time, limit int) (ids []objectstore.ClientID, err error) {
	const query = `SELECT c.app, c.recipient, c.grp, c.device FROM progress p JOIN client c ON c.id = p.client
		WHERE p.seen_day <= $1::bigint / 86400000 AND p.seen_at < $1 ORDER BY p.seen_day, p.seen_at LIMIT $2`
	err = s.db.Each(ctx, readRegistrations, query, []any{before.UnixMilli(), limit}, func(rows pgx.Rows) error {
		var v objectstore.ClientID
		err := rows.Scan(&v.App, &v.Recipient, &v.Group, &v.Device)
		ids = append(ids, v)
		return err
	})
	return ids, err
}

// Drop implements objectstore.Store. Clients are locked first, as Save does, so that neither waits for the other.
func (s *Store) Drop(ctx context.Context, ids []objectstore.ClientID, before time.Time) (n int, err error) {
	var drop clientColumns
	for _, v := range ids {
		drop.add(v)
	}
	err = s.db.Do(ctx, "drop registrations", func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `SELECT c.id FROM client c JOIN unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS v(app, recipient, grp, device)
			ON (c.app, c.recipient, c.grp, c.device) = (v.app, v.recipient, v.grp, v.device)
			ORDER BY c.app, c.recipient, c.grp, c.device FOR UPDATE OF c`, drop.apps, drop.recipients, drop.groups, drop.devices)
		if err != nil {
			return err
		}
		there, err := pgx.CollectRows(rows, pgx.RowTo[int64])
		if err != nil {
			return err
		}
		gone, err := tx.Exec(ctx, `WITH gone AS (DELETE FROM progress WHERE client = ANY($1) AND seen_at < $2 RETURNING client)
			DELETE FROM client USING gone WHERE client.id = gone.client`, there, before.UnixMilli())
		n = int(gone.RowsAffected())
		return err
	})
	return n, s.db.Known(err)
}

// Erase implements objectstore.Store.
func (s *Store) Erase(ctx context.Context, app, recipient string) error {
	return s.db.Known(s.db.Do(ctx, "erase registrations", func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `WITH gone AS (DELETE FROM client WHERE app = $1 AND recipient = $2 RETURNING id)
			DELETE FROM progress USING gone WHERE progress.client = gone.id`, app, recipient)
		if err == nil { // the recipient's object versions stay, without its name
			_, err = tx.Exec(ctx, "UPDATE object SET source = '' WHERE app = $1 AND (source = $2 OR starts_with(source, $2 || '/'))", app, recipient)
		}
		return err
	}))
}

// eraseRows is how many rows one transaction deletes.
const eraseRows = 500

// EraseApp deletes all data of a deleted app, in slices of eraseRows.
func (s *Store) EraseApp(ctx context.Context, app string) error {
	for _, query := range []string{
		"DELETE FROM progress WHERE client IN (SELECT client FROM progress JOIN client ON client.id = progress.client WHERE client.app = $1 LIMIT $2)",
		"DELETE FROM client WHERE id IN (SELECT id FROM client WHERE app = $1 LIMIT $2)",
		"DELETE FROM object WHERE (app, grp, name) IN (SELECT app, grp, name FROM object WHERE app = $1 LIMIT $2)",
	} {
		for more := true; more; {
			err := s.db.Do(ctx, "erase objects of app "+app, func(ctx context.Context, tx pgx.Tx) error {
				gone, err := tx.Exec(ctx, query, app, eraseRows)
				more = gone.RowsAffected() == eraseRows
				return err
			})
			if err != nil {
				return s.db.Known(err)
			}
		}
	}
	return nil
}
