package objectdb

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/objects/object"
	"godwit.dev/godwit/internal/objects/object/objectstore"
	"godwit.dev/godwit/internal/store/postgres/pgdb"
)

// Values of an object's kind column. The row records whether the server assigned its version, so that the statement that assigns the next
// version can distinguish its own 1 from a 1 that the caller gave.
const (
	unknown int16 = iota
	given
	next
)

// putOp is one caller's changes.
type putOp struct {
	batch []*objectstore.Put
	done  chan error
}

// Put implements objectstore.Store. Once a put is queued, Put waits for the commit even if ctx ends, since the lane
// writes the results.
func (s *Store) Put(ctx context.Context, batch []*objectstore.Put) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("store objects: %w", context.Cause(ctx))
	}
	op := &putOp{batch: batch, done: make(chan error, 1)}
	if !s.puts.add(batch[0].App, op) { // a batch is of one app
		return pgdb.Error(storeObjects, mailbox.ErrClosed)
	}
	return <-op.done
}

const storeObjects = "store objects"

// writePuts commits the callers' puts, then informs the observer, then the callers.
func (s *Store) writePuts(ops []*putOp) {
	var all []*objectstore.Put
	for _, op := range ops {
		all = append(all, op.batch...)
	}
	ctx := context.Background() // the database limits its duration to far less than signal.Overlap, which is how far back other nodes read
	err := s.put(ctx, all)
	if err == nil {
		s.tell(all)
		err = s.unchanged(ctx, all)
	}
	for _, op := range ops {
		op.done <- err
	}
}

// tell reports changes to the observer.
func (s *Store) tell(all []*objectstore.Put) {
	obs := s.obs.Load()
	if obs == nil {
		return
	}
	var changes []objectstore.Change
	for _, p := range all {
		if p.Changed {
			st := p.State
			changes = append(changes, objectstore.Change{App: p.App, Key: p.Key, State: &st})
		}
	}
	if len(changes) > 0 {
		(*obs).Changed(changes)
	}
}

// upsert stores the puts that change something, and returns them with their versions. It locks rows in the order of their keys, on every
// node alike. object.State.Apply defines the rules.
const upsert = `INSERT INTO object AS o (app, grp, name, version, kind, updated_at, changed_at, source, content_type, payload)
	SELECT p.app, p.grp, p.name, CASE p.kind WHEN 2 THEN 1 ELSE p.version END, p.kind, p.at, $1, p.source, p.content_type, p.payload
	FROM unnest($2::text[], $3::text[], $4::text[], $5::bigint[], $6::smallint[], $7::bigint[], $8::text[], $9::text[], $10::bytea[])
		AS p(app, grp, name, version, kind, at, source, content_type, payload)
	ORDER BY p.app COLLATE "C", p.grp COLLATE "C", p.name COLLATE "C"
	ON CONFLICT (app, grp, name) DO UPDATE SET
		version = CASE excluded.kind WHEN 0 THEN greatest(o.version, excluded.version) WHEN 1 THEN excluded.version ELSE o.version + 1 END,
		kind = excluded.kind, updated_at = excluded.updated_at, changed_at = excluded.changed_at, source = excluded.source,
		content_type = excluded.content_type, payload = excluded.payload
	WHERE CASE excluded.kind WHEN 0 THEN o.kind <> 0 OR excluded.version > o.version WHEN 1 THEN excluded.version > o.version
		ELSE o.version < 9223372036854775807 END
	RETURNING app, grp, name, version`

// id identifies an object across apps.
type id struct {
	app string
	object.Key
}

// put stores changes in one transaction. A statement can change each object only once, so the second change of an object is in the second
// statement.
func (s *Store) put(ctx context.Context, all []*objectstore.Put) error {
	rounds := roundsOf(all)
	statements := &pgx.Batch{}
	at := s.db.Now().UnixMilli()
	for _, round := range rounds {
		statements.Queue(upsert, upsertArgs(at, round)...)
	}
	return s.db.Known(s.db.Send(ctx, storeObjects, statements, func(results pgx.BatchResults) error {
		for _, round := range rounds {
			if err := readUpserted(results, round); err != nil {
				return err
			}
		}
		return nil
	}))
}

// roundsOf distributes changes to rounds: a round has each object at most once, and the changes of one object keep their order.
func roundsOf(all []*objectstore.Put) (rounds []map[id]*objectstore.Put) {
	nth := make(map[id]int, len(all))
	for _, p := range all {
		k := id{p.App, p.Key}
		n := nth[k]
		nth[k]++
		if n == len(rounds) {
			rounds = append(rounds, make(map[id]*objectstore.Put, len(all)))
		}
		rounds[n][k] = p
	}
	return rounds
}

func upsertArgs(changedAt int64, round map[id]*objectstore.Put) []any {
	n := len(round)
	apps, groups, names := make([]string, 0, n), make([]string, 0, n), make([]string, 0, n)
	versions, kinds, ats := make([]int64, 0, n), make([]int16, 0, n), make([]int64, 0, n)
	sources, types, payloads := make([]string, 0, n), make([]string, 0, n), make([][]byte, 0, n)
	for k, p := range round {
		apps, groups, names = append(apps, k.app), append(groups, k.Group), append(names, k.Object)
		versions, kinds, ats = append(versions, int64(p.Version)), append(kinds, kindOf(&p.Put)), append(ats, p.At.UnixMilli())
		contentType, payload := p.ContentType, p.Payload
		if p.Unknown {
			contentType, payload = "", nil
		}
		if payload == nil {
			payload = []byte{}
		}
		sources, types, payloads = append(sources, p.Origin.String()), append(types, contentType), append(payloads, payload)
	}
	return []any{changedAt, apps, groups, names, versions, kinds, ats, sources, types, payloads}
}

func kindOf(p *object.Put) int16 {
	switch {
	case p.Unknown:
		return unknown
	case p.Version == 0:
		return next
	}
	return given
}

// readUpserted fills in the results of a round.
func readUpserted(results pgx.BatchResults, round map[id]*objectstore.Put) error {
	for _, p := range round {
		p.Changed, p.Err, p.State = false, nil, object.State{}
	}
	rows, err := results.Query()
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var k id
		var version int64
		if err := rows.Scan(&k.app, &k.Group, &k.Object, &version); err != nil {
			return err
		}
		p := round[k]
		p.Changed, p.State = true, object.State{Version: object.Version(version), Origin: p.Origin, UpdatedAt: p.At}
		if !p.Unknown {
			p.State.Known, p.State.Payload, p.State.ContentType = true, p.Payload, p.ContentType
		}
	}
	return rows.Err()
}

// unchanged reads the current state of the objects that a put left unchanged. That state may include later changes by others; it is a valid
// result all the same, since the put would change nothing at any later time either.
func (s *Store) unchanged(ctx context.Context, all []*objectstore.Put) error {
	byApp := make(map[string][]*objectstore.Put)
	for _, p := range all {
		if !p.Changed {
			byApp[p.App] = append(byApp[p.App], p)
		}
	}
	for app, puts := range byApp {
		keys := make([]object.Key, len(puts))
		for i, p := range puts {
			keys[i] = p.Key
		}
		states, err := s.Get(ctx, app, keys)
		if err != nil {
			return err
		}
		for i, p := range puts {
			p.State = states[i]
			if kindOf(&p.Put) == next {
				_, _, p.Err = p.State.Apply(&p.Put, p.At) // there is no next one
			}
		}
	}
	return nil
}

// sorted returns the keys of a map in order, since every node locks rows in the same order.
func sorted[V any](m map[objectstore.ClientID]V) []objectstore.ClientID {
	ids := make([]objectstore.ClientID, 0, len(m))
	for v := range m {
		ids = append(ids, v)
	}
	slices.SortFunc(ids, compareClients)
	return ids
}
