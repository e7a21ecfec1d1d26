package mailboxdb

import (
	"context"
	"fmt"
	"log/slog"
	"math"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

// MaxBodyOffset is the greatest distance of a copy from the position of a content that it shares.
const MaxBodyOffset = math.MaxInt16

// OpenFile opens or creates the file without a store, for code that fills it with rows. No server may use it meanwhile.
func OpenFile(ctx context.Context, path string, g sqlitedb.Guard, log *slog.Logger) (*sqlitedb.DB, error) {
	db, err := sqlitedb.Open(ctx, path, sqlitedb.Options{AppID: appID, Migrations: migrations(), Guard: g, Log: log}, nil)
	if err != nil {
		return nil, fmt.Errorf("open mailbox: %w", err)
	}
	return db, nil
}

// Adopted completes a file that was filled with rows. Each row says itself whether its copy is pending. Positions continue after last. All full
// slices are sealed: a store would keep their index in memory until it had done so.
func Adopted(ctx context.Context, db *sqlitedb.DB, last int64) error {
	if err := db.Do(ctx, func(c *sqlite.Conn) error {
		const sql = "INSERT OR REPLACE INTO meta(name, value) SELECT name, max(?1, coalesce((SELECT max(pos) FROM notification), 0)) FROM meta WHERE name IN ('last_pos', 'flushed_pos', 'folded_pos')"
		return sqlitedb.EachOnce(c, sql, []any{last}, nil)
	}); err != nil {
		return err
	}
	for number := int64(0); ; number++ {
		var t *tail
		err := db.Read(ctx, func(c *sqlite.Conn) (err error) {
			t, err = adoptedSlice(c, number)
			return err
		})
		if err != nil || t == nil {
			return err
		}
		if _, _, err := writeSlice(ctx, db, t); err != nil {
			return fmt.Errorf("seal slice %d: %w", t.number, err)
		}
		number = t.number
	}
}

// adoptedSlice returns the first slice with rows from a number on; nil: the rest belongs to the slice that is not full.
func adoptedSlice(c *sqlite.Conn, number int64) (*tail, error) {
	newest := int64(0)
	const next = "SELECT coalesce((SELECT min(pos) FROM notification WHERE pos >= ?1), 0), (SELECT value FROM meta WHERE name = 'last_pos')"
	err := sqlitedb.Each(c, next, []any{number << sliceBits}, func(st *sqlite.Stmt) error {
		number, newest = st.ColumnInt64(0)>>sliceBits, st.ColumnInt64(1)>>sliceBits
		if st.ColumnInt64(0) == 0 {
			number = newest
		}
		return nil
	})
	if err != nil || number >= newest {
		return nil, err
	}
	l := &loader{apps: make(map[int64]*app)}
	err = sqlitedb.Each(c, "SELECT key, name FROM app", nil, func(st *sqlite.Stmt) error {
		l.apps[st.ColumnInt64(0)] = &app{name: st.ColumnText(1)}
		return nil
	})
	if err != nil {
		return nil, err
	}
	t := newTail(number, sliceBits)
	return t, (&tailLoader{l: l, t: t, c: c, names: make(map[uint32]string)}).load()
}
