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
	return fmt.Sprintf("%d notifications have steps beyond live that have not begun, which PostgreSQL does not keep yet: start the server on the folder until they have begun or are settled, or recall them", e.Waiting)
}

// checkSteps refuses a mailbox with steps that are still to begin.
func checkSteps(ctx context.Context, mailbox *sqlitedb.DB) error {
	var n int64
	err := mailbox.Read(ctx, func(c *sqlite.Conn) error {
		return sqlitedb.Each(c, "SELECT count(*) FROM escalation WHERE due_at > 0", nil, func(s *sqlite.Stmt) error {
			n = s.ColumnInt64(0)
			return nil
		})
	})
	if err != nil {
		return fmt.Errorf("look for steps that wait: %w", err)
	}
	if n > 0 {
		return &StepsError{Waiting: n}
	}
	return nil
}
