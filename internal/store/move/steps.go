package move

import (
	"context"
	"fmt"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/store/sqlite/sqlitedb"
)

// StepsError says that notifications wait whose next step the target cannot keep: it would never come.
type StepsError struct{ Waiting int64 }

func (e *StepsError) Error() string {
	return fmt.Sprintf("%d steps beyond live wait or are being sent, which PostgreSQL does not keep yet: start the server on the folder until they are sent or their notifications settled", e.Waiting)
}

// checkSteps refuses a mailbox with steps that are still to begin.
func checkSteps(ctx context.Context, from *Sources) error {
	var n int64
	for _, q := range []struct {
		db  *sqlitedb.DB
		sql string
	}{
		{from.Mailbox, "SELECT count(*) FROM escalation WHERE due_at > 0"},
		{from.Campaigns, "SELECT count(*) FROM push_send WHERE outcome IN (0, 1)"},
	} {
		err := q.db.Read(ctx, func(c *sqlite.Conn) error {
			return sqlitedb.Each(c, q.sql, nil, func(s *sqlite.Stmt) error {
				n += s.ColumnInt64(0)
				return nil
			})
		})
		if err != nil {
			return fmt.Errorf("look for steps that wait: %w", err)
		}
	}
	if n > 0 {
		return &StepsError{Waiting: n}
	}
	return nil
}
