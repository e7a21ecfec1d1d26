package campaigndb

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/store/campaignrow"
)

// eraseRows is the number of rows deleted in one transaction, which locks the app's row meanwhile.
const eraseRows = 500

// EraseApp deletes all rows of a deleted app, in slices.
func (s *Store) EraseApp(ctx context.Context, app string) error {
	for {
		var num int64
		found := false
		err := s.do(ctx, "look for campaigns of app "+app, func(ctx context.Context, tx pgx.Tx) (err error) {
			found, err = one(ctx, tx, "SELECT num FROM campaign WHERE app = $1 LIMIT 1", []any{app}, &num)
			return err
		})
		for done := !found; !done && err == nil; {
			done, err = s.Remove(ctx, num, eraseRows)
		}
		if err != nil {
			return err
		}
		if !found {
			break
		}
	}
	for n := eraseRows; n > 0; {
		err := s.write(ctx, "erase endpoints of app "+app, app, func(ctx context.Context, w *writer) error {
			if err := w.load(ctx, "e.app = $1 ORDER BY e.number LIMIT $2", app, eraseRows); err != nil {
				return err
			}
			n = len(w.all)
			for _, r := range w.all {
				w.remove(r)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	for _, t := range campaignrow.OfApp() {
		for more := true; more; {
			err := s.do(ctx, "erase what is kept of app "+app, func(ctx context.Context, tx pgx.Tx) error {
				gone, err := tx.Exec(ctx, fmt.Sprintf("DELETE FROM %[1]s WHERE (%[2]s) IN (SELECT %[2]s FROM %[1]s WHERE app = $1 LIMIT $2)", t.Table, t.Key), app, eraseRows)
				more = gone.RowsAffected() == eraseRows
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}
