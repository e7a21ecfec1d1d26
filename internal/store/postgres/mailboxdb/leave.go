package mailboxdb

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// EachCopy reads the copies of a schema that no server uses, after a position and in the order of positions, for code that copies them into
// another store. The schema is the one in the transaction's search_path. Names of apps are missing.
func EachCopy(ctx context.Context, tx pgx.Tx, after int64, each func(*Adopted) error) error {
	set, err := (&tables{}).read(ctx, tx)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, planFreely); err != nil {
		return err
	}
	// A copy has settled if it has no row in pending: then done has its end, or its stub.
	sql := "SELECT x.* FROM (" + all(set.hours, `SELECT n.pos, n.recipient, coalesce(p.seq, d.seq, n.seq) AS seq, n.id, n.created_at, coalesce(n.send_at, 0), n.expires_at,
			CASE WHEN p.pos IS NULL THEN d.settled_at ELSE 0 END AS settled_at, coalesce(p.delivered_at, d.delivered_at, 0), n.hash, coalesce(p.attempts, d.attempts, 0), n.flags,
			CASE WHEN p.pos IS NULL THEN d.status ELSE 0::smallint END, p.pos IS NOT NULL, CASE WHEN p.pos IS NOT NULL THEN coalesce(n.collapse_key, '') ELSE '' END,
			CASE WHEN p.pos IS NOT NULL THEN coalesce(n.content, 0) ELSE 0 END, CASE WHEN p.pos IS NOT NULL THEN coalesce(n.body, c.body) END
		FROM note_%[1]d n LEFT JOIN pending p ON p.recipient = n.recipient AND p.pos = n.pos LEFT JOIN content_%[1]d c ON c.key = n.content
			LEFT JOIN (`+all(set.dones, "SELECT * FROM done_%[1]d")+`) d ON d.pos = n.pos
		WHERE n.pos > $1 AND (p.pos IS NOT NULL OR d.settled_at >= (SELECT pruned_until FROM retention))`)
	if len(set.days) > 0 {
		sql += "\nUNION ALL " + all(set.days, `SELECT pos, recipient, seq, id, created_at, coalesce(send_at, 0), expires_at, settled_at, coalesce(delivered_at, 0), hash, attempts, flags,
			status, false, '', 0::bigint, NULL::bytea FROM stub_%[1]d WHERE pos > $1 AND settled_at >= (SELECT pruned_until FROM retention)`)
	}
	sql += ") x JOIN recipient r ON r.key = x.recipient ORDER BY x.pos"
	return eachAdopted(ctx, tx, sql, func(c *Adopted) error {
		c.Escalates = c.Escalates && c.Open
		return each(c)
	}, after)
}

// CountCopies counts the rows of copies, those included that EachCopy passes over.
func CountCopies(ctx context.Context, tx pgx.Tx) (n int64, err error) {
	set, err := (&tables{}).read(ctx, tx)
	if err != nil {
		return 0, err
	}
	sql := "SELECT count(*) FROM (" + all(set.hours, "SELECT FROM note_%[1]d")
	if len(set.days) > 0 {
		sql += "\nUNION ALL " + all(set.days, "SELECT FROM stub_%[1]d")
	}
	err = tx.QueryRow(ctx, sql+") x").Scan(&n)
	return n, err
}
