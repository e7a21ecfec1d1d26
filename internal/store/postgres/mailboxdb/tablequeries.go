package mailboxdb

import (
	"fmt"
	"strings"
)

// text returns the cached statement of a name; compose builds it for these tables at first use.
func (set *tableSet) text(name string, compose func() string) string {
	if v, ok := set.texts.Load(name); ok {
		return v.(string)
	}
	sql := compose()
	set.texts.Store(name, sql)
	return sql
}

const (
	noteColumns = "n.pos, n.recipient, n.id, n.id_key, n.flags, n.seq, n.created_at, n.send_at, n.expires_at, n.hash"
	stubColumns = noteColumns + ", n.settled_at, n.delivered_at, n.attempts, n.status"
)

// copies selects the copies n, open or settled, that meet the condition where. Each row has the number of its table: an hour, or a day as a
// negative number.
func (set *tableSet) copies(days []int64, where string) string {
	sql := all(set.hours, "(SELECT %[1]d::bigint AS src, "+noteColumns+", 0::bigint AS settled_at, 0::bigint AS delivered_at, 0 AS attempts, 0::smallint AS status FROM note_%[1]d n WHERE "+where+")")
	if len(days) > 0 {
		sql += "\nUNION ALL " + all(days, "(SELECT -%[1]d::bigint AS src, "+stubColumns+" FROM stub_%[1]d n WHERE "+where+")")
	}
	return sql
}

// standing returns the joins that add a copy's current state to x, a row of copies: p if it is open, d if it has settled and is not sealed
// yet.
func (set *tableSet) standing() string {
	return `LEFT JOIN pending p ON p.recipient = ANY(ARRAY[x.recipient]) AND p.pos = x.pos
		LEFT JOIN LATERAL (` + all(set.dones, "SELECT * FROM done_%[1]d d WHERE x.src > 0 AND d.pos = x.pos") + `) d ON true`
}

// rowColumns are the columns that scanRow reads, for copies x joined with their standing.
const rowColumns = `x.src, x.pos, x.recipient, x.id, x.flags, coalesce(p.seq, d.seq, x.seq), x.created_at, coalesce(x.send_at, 0), x.expires_at, x.hash,
	coalesce(d.settled_at, x.settled_at), coalesce(p.delivered_at, d.delivered_at, x.delivered_at, 0), coalesce(p.attempts, d.attempts, x.attempts),
	coalesce(d.status, x.status), p.pos IS NOT NULL`

// kept is the condition for copies that are still within retention.
const kept = "(p.pos IS NOT NULL OR coalesce(d.settled_at, x.settled_at) >= (SELECT pruned_until FROM retention))"

// row is the current state of one copy.
type row struct {
	src       int64
	pos       int64
	recipient int64
	id        string
	flags     flags
	seq       int64
	created   int64
	sendAt    int64
	expires   int64
	hash      int64
	settled   int64 // 0: open
	delivered int64 // 0: not known
	attempts  int32
	status    int16 // 0: open
	open      bool
}

func (r *row) fields() []any {
	return []any{
		&r.src, &r.pos, &r.recipient, &r.id, &r.flags, &r.seq, &r.created, &r.sendAt, &r.expires, &r.hash, &r.settled, &r.delivered, &r.attempts,
		&r.status, &r.open,
	}
}

// all joins one SELECT per number by UNION ALL; format refers to the number as %[1]d.
func all(numbers []int64, format string) string {
	parts := make([]string, len(numbers))
	for i, n := range numbers {
		parts[i] = strings.ReplaceAll(format, "%[1]d", fmt.Sprint(n))
	}
	return strings.Join(parts, "\nUNION ALL ")
}
