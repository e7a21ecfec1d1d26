package objectdb

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/objects/object"
	"godwit.dev/godwit/internal/objects/object/objectstore"
)

const stateColumns = "o.version, o.kind, o.updated_at, o.source, o.content_type, o.payload"

// scanState reads a row's stateColumns, which follow the columns in before.
func scanState(rows pgx.Rows, before ...any) (object.State, error) {
	var version, updatedAt int64
	var kind int16
	var source, contentType string
	var payload []byte
	if err := rows.Scan(append(before, &version, &kind, &updatedAt, &source, &contentType, &payload)...); err != nil {
		return object.State{}, err
	}
	from, err := object.ParseOrigin(source)
	if err != nil {
		return object.State{}, fmt.Errorf("stored source is damaged: %w", err)
	}
	st := object.State{Version: object.Version(version), Known: kind != unknown, UpdatedAt: fromMillis(updatedAt), Origin: from, ContentType: contentType}
	if len(payload) > 0 {
		st.Payload = payload
	}
	return st, nil
}

// Get implements objectstore.Store.
func (s *Store) Get(ctx context.Context, app string, keys []object.Key) ([]object.State, error) {
	out := make([]object.State, len(keys))
	groups, names := make([]string, len(keys)), make([]string, len(keys))
	for i, k := range keys {
		groups[i], names[i] = k.Group, k.Object
	}
	const query = "SELECT k.nth, " + stateColumns + ` FROM unnest($2::text[], $3::text[]) WITH ORDINALITY AS k(grp, name, nth)
		JOIN object o ON o.app = $1 AND o.grp = k.grp AND o.name = k.name`
	err := s.db.Each(ctx, "read objects", query, []any{app, groups, names}, func(rows pgx.Rows) (err error) {
		var nth int64
		st, err := scanState(rows, &nth)
		if err == nil {
			out[nth-1] = st
		}
		return err
	})
	return out, err
}

// List implements objectstore.Store.
func (s *Store) List(ctx context.Context, app, group, prefix, after string, limit int) (items []objectstore.Item, err error) {
	// Names are ASCII, so those that begin with prefix end before prefix + "\x7f".
	const query = "SELECT o.name, " + stateColumns + ` FROM object o WHERE o.app = $1 AND o.grp = $2 AND o.name >= $3 AND o.name < $4 AND o.name > $5
		ORDER BY o.name LIMIT $6`
	err = s.db.Each(ctx, "list objects", query, []any{app, group, prefix, prefix + "\x7f", after, limit}, func(rows pgx.Rows) error {
		var name string
		st, err := scanState(rows, &name)
		items = append(items, objectstore.Item{Key: object.Key{Group: group, Object: name}, State: st})
		return err
	})
	return items, err
}

// Groups implements objectstore.Store. It steps from group to group along the key and skips the objects in them.
func (s *Store) Groups(ctx context.Context, app, after string, limit int) (groups []string, err error) {
	const query = `WITH RECURSIVE g(grp) AS (
			SELECT (SELECT grp FROM object WHERE app = $1 AND grp > $2 ORDER BY grp LIMIT 1)
			UNION ALL SELECT (SELECT o.grp FROM object o WHERE o.app = $1 AND o.grp > g.grp ORDER BY o.grp LIMIT 1) FROM g WHERE g.grp IS NOT NULL
		) SELECT grp FROM g WHERE grp IS NOT NULL LIMIT $3`
	err = s.db.Each(ctx, "list groups of objects", query, []any{app, after, limit}, func(rows pgx.Rows) error {
		var group string
		err := rows.Scan(&group)
		groups = append(groups, group)
		return err
	})
	return groups, err
}

// News implements objectstore.Shared.
func (s *Store) News(ctx context.Context, since time.Time, from *objectstore.NewsMark, limit int) (news []objectstore.News, next *objectstore.NewsMark, err error) {
	at, k := since.UnixMilli(), id{}
	if from != nil {
		at, k = from.At.UnixMilli(), id{from.App, from.Key}
	}
	const query = `SELECT changed_at, app, grp, name, version, kind <> 0 FROM object
		WHERE changed_at >= $1 AND (changed_at, app, grp, name) > ($1, $2, $3, $4) ORDER BY changed_at, app, grp, name LIMIT $5`
	var last int64
	err = s.db.Each(ctx, "look for changes of objects", query, []any{at, k.app, k.Group, k.Object, limit}, func(rows pgx.Rows) error {
		var n objectstore.News
		var version int64
		err := rows.Scan(&last, &n.App, &n.Key.Group, &n.Key.Object, &version, &n.Known)
		n.Version = object.Version(version)
		news = append(news, n)
		return err
	})
	if err == nil && len(news) == limit {
		n := news[limit-1]
		next = &objectstore.NewsMark{At: fromMillis(last), App: n.App, Key: n.Key}
	}
	return news, next, err
}

// Stats implements objectstore.Store.
func (s *Store) Stats(ctx context.Context) (objects, clients int64, err error) {
	err = s.db.Each(ctx, "count objects", "SELECT (SELECT count(*) FROM object), (SELECT count(*) FROM client)", nil, func(rows pgx.Rows) error {
		return rows.Scan(&objects, &clients)
	})
	return objects, clients, err
}
