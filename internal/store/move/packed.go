package move

import (
	"errors"
	"math"
	"slices"

	"zombiezen.com/go/sqlite"

	sqlitebox "godwit.dev/godwit/internal/store/sqlite/mailboxdb"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

// withPacked inserts the copies without rows among rows of copiesSQL, which are those after a position.
func (s slice) withPacked(c *sqlite.Conn, after int64) (slice, error) {
	last := int64(math.MaxInt64)
	if len(s.rows) > 0 && s.cut {
		last = s.last[0].(int64)
	}
	r := packedReader{c: c}
	err := r.read(after+1, last)
	if errors.Is(err, errFull) {
		last, err = r.rows[len(r.rows)-1][0].(int64), nil
	}
	if err == nil {
		err = settle(c, r.rows)
	}
	if err == nil {
		err = r.addContents()
	}
	if err != nil || len(r.rows) == 0 {
		return s, err
	}
	rows := slices.DeleteFunc(s.rows, func(row []any) bool { return row[0].(int64) > last })
	rows = append(rows, r.rows...)
	slices.SortFunc(rows, func(a, b []any) int { return int(a[0].(int64) - b[0].(int64)) })
	return slice{rows: rows, last: rows[len(rows)-1][:1], cut: s.cut}, nil
}

// packedReader reads packed copies as rows of copiesSQL.
type packedReader struct {
	c    *sqlite.Conn
	rows [][]any
	apps map[int64]any // of recipients
}

// read reads the copies between two positions; errFull: there may be more.
func (r *packedReader) read(from, to int64) error {
	r.apps = make(map[int64]any)
	return sqlitebox.EachPacked(r.c, from, to, func(p *sqlitebox.Packed) error {
		app, err := r.appOf(p.Recipient)
		if err != nil || app == nil { // it is being erased
			return err
		}
		r.rows = append(r.rows, []any{
			p.Pos, p.Recipient, app, text(p.ID), p.Seq, p.Open, p.Status, p.Ack, p.Priority, int64(0), p.BodyOffset, p.Created, int64(0),
			p.Expires, p.Delivered, p.Settled, p.Hash, text(p.CollapseKey), nil, int64(0),
		})
		if len(r.rows) == sliceRows {
			return errFull
		}
		return nil
	})
}

// appOf returns the name of a recipient's app; nil: there is no such recipient.
func (r *packedReader) appOf(recipient int64) (app any, err error) {
	if app, ok := r.apps[recipient]; ok {
		return app, nil
	}
	err = sqlitedb.Each(r.c, "SELECT a.name FROM recipient r JOIN app a ON a.key = r.app WHERE r.key = ?", []any{recipient}, func(st *sqlite.Stmt) error {
		app = value(st, 0)
		return nil
	})
	r.apps[recipient] = app
	return app, err
}

// addContents adds the contents of waiting copies. None has a next step, since copies with steps are not packed.
func (r *packedReader) addContents() error {
	bodies := make(map[int64]any)
	for _, row := range r.rows {
		if row[5].(int64) != 1 {
			continue
		}
		content := row[0].(int64)
		if offset := row[10].(int64); offset != soleCopy {
			content -= offset
		}
		body, ok := bodies[content]
		if !ok {
			if err := sqlitedb.Each(r.c, "SELECT body FROM content WHERE pos = ?", []any{content}, func(st *sqlite.Stmt) error {
				body = value(st, 0)
				return nil
			}); err != nil {
				return err
			}
			bodies[content] = body
		}
		row[18] = body
	}
	return nil
}
