package mailboxdb

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/store/postgres/pgdb"
)

// defaultSchema is where mailboxes are.
const defaultSchema = "godwit_mailbox"

// maxNamed limits the lost copies that are named.
const maxNamed = 5

// LostSteps counts waiting copies with steps beyond live whose row with the next step is missing: rows were deleted, or only partly
// restored.
type LostSteps struct {
	Count int64
	Named []string // the first of them, in a form for people
}

// FindLostSteps searches for lost steps, even while servers are running; schema "" is the default of a Config. It changes nothing, and
// creates nothing if there are no mailboxes yet.
func FindLostSteps(ctx context.Context, url, schema string) (lost LostSteps, err error) {
	if schema == "" {
		schema = defaultSchema
	}
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		return lost, pgdb.Error("look for lost steps", err)
	}
	defer func() { _ = c.Close(context.WithoutCancel(ctx)) }()
	tx, err := c.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return lost, pgdb.Error("look for lost steps", err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	return lost, pgdb.Error("look for lost steps", lost.find(ctx, tx, pgx.Identifier{schema}.Sanitize()))
}

func (l *LostSteps) find(ctx context.Context, tx pgx.Tx, schema string) error {
	var there bool
	if err := tx.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL", schema+".escalation").Scan(&there); err != nil || !there {
		return err
	}
	if _, err := tx.Exec(ctx, "SET LOCAL search_path = "+schema); err != nil {
		return err
	}
	rows, err := tx.Query(ctx, "SELECT number FROM hour WHERE NOT sealed ORDER BY number")
	if err != nil {
		return err
	}
	hours, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return err
	}
	of := "CROSS JOIN (SELECT NULL::text AS id) x" // the id of a copy
	if len(hours) > 0 {
		of = "LEFT JOIN LATERAL (" + all(hours, "SELECT n.id FROM note_%[1]d n WHERE n.recipient = p.recipient AND n.pos = p.pos") + ") x ON true"
	}
	const without = " FROM pending p WHERE p.flags & $1 <> 0 AND NOT EXISTS (SELECT FROM escalation e WHERE e.recipient = p.recipient AND e.pos = p.pos)"
	if err := tx.QueryRow(ctx, "SELECT count(*)"+without, stepsFlag).Scan(&l.Count); err != nil || l.Count == 0 {
		return err
	}
	rows, err = tx.Query(ctx, "SELECT coalesce(x.id, 'at ' || p.pos), r.name, a.name FROM (SELECT p.recipient, p.pos"+without+" ORDER BY p.pos LIMIT $2) p "+of+`
		JOIN recipient r ON r.key = p.recipient JOIN app a ON a.key = r.app ORDER BY p.pos`, stepsFlag, maxNamed)
	if err != nil {
		return err
	}
	var id, recipient, app string
	_, err = pgx.ForEachRow(rows, []any{&id, &recipient, &app}, func() error {
		l.Named = append(l.Named, fmt.Sprintf("%s to %s of app %s", id, recipient, app))
		return nil
	})
	return err
}

// String says which they are.
func (l *LostSteps) String() string {
	text := strings.Join(l.Named, ", ")
	if more := l.Count - int64(len(l.Named)); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
