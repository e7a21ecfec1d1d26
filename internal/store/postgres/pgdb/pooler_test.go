package pgdb_test

import (
	"errors"
	"testing"

	"godwit.dev/godwit/internal/store/postgres/pgdb"
	"godwit.dev/godwit/internal/store/postgres/pgtest"
)

func TestAPoolerIsRefusedUnlessItLeavesSessionsAlone(t *testing.T) {
	for _, perTransaction := range []bool{true, false} {
		cfg := pgdb.Config{URL: pgtest.Pooler(t, pgtest.URL(t), perTransaction), Schema: pgtest.Schema(t), Migrations: oneTable}
		if perTransaction {
			// The second and third attempts get sessions in which the first has prepared its statements.
			for i := range 3 {
				db, err := pgdb.Open(t.Context(), cfg)
				if !errors.Is(err, pgdb.ErrPooled) {
					t.Errorf("a pooler in transaction mode, for the %d. time: %v", i+1, err)
				}
				if err == nil {
					db.Close()
				}
			}
			continue
		}
		db := open(t, cfg)
		ok(t, db.Do(t.Context(), "insert", exec(db, "INSERT INTO t VALUES (1)")))
		if n := number(t, db, "SELECT count(*) FROM t"); n != 1 {
			t.Errorf("%d rows through a pooler in session mode", n)
		}
		db.Close()
	}
}
