package campaigndb

import (
	"context"
	"fmt"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/store/campaignrow"
	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

// eraseRows is how many rows one commit deletes, so that other operations wait a few milliseconds at most.
const eraseRows = 250

// EraseApp deletes all data of a deleted app, in slices. Other operations run between them.
func (s *Store) EraseApp(ctx context.Context, app string) error {
	if err := s.eraseAll(ctx, app); err != nil {
		return fmt.Errorf("erase endpoints and campaigns of app %s: %w", app, known(err))
	}
	return nil
}

func (s *Store) eraseAll(ctx context.Context, app string) error {
	for {
		list, err := s.numbers(ctx, app, "SELECT num FROM campaign WHERE app = ? LIMIT 1")
		if err != nil {
			return err
		}
		if len(list) == 0 {
			break
		}
		for done := false; !done; {
			if done, err = s.Remove(ctx, list[0], eraseRows); err != nil {
				return err
			}
		}
	}
	for {
		list, err := s.numbers(ctx, app, "SELECT number FROM endpoint WHERE app = ? LIMIT ?", eraseRows)
		if err != nil {
			return err
		}
		if len(list) == 0 {
			break
		}
		err = s.db.DoBulkFor(ctx, app, len(list), func(c *sqlite.Conn) error {
			w := endpointWriter{c: c, app: app, now: s.now()}
			for _, number := range list {
				e, found, err := endpointByNumber(c, number)
				if err == nil && found {
					err = w.delete(&e)
				}
				if err != nil {
					return err
				}
			}
			return w.count()
		})
		if err != nil {
			return err
		}
	}
	for _, t := range campaignrow.OfApp() {
		for more := true; more; {
			err := s.db.DoBulkFor(ctx, app, eraseRows, func(c *sqlite.Conn) error {
				err := sqlitedb.Each(c, fmt.Sprintf("DELETE FROM %[1]s WHERE (%[2]s) IN (SELECT %[2]s FROM %[1]s WHERE app = ? LIMIT ?)", t.Table, t.Key), []any{app, eraseRows}, nil)
				more = c.Changes() == eraseRows
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// numbers reads the first column of some rows of an app.
func (s *Store) numbers(ctx context.Context, app, query string, args ...any) (list []int64, err error) {
	err = s.db.ReadFor(ctx, app, func(c *sqlite.Conn) error {
		list = nil
		return sqlitedb.Each(c, query, append([]any{app}, args...), func(row *sqlite.Stmt) error {
			list = append(list, row.ColumnInt64(0))
			return nil
		})
	})
	return list, err
}
