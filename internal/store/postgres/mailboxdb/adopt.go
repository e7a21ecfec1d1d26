package mailboxdb

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/store/content"
	"godwit.dev/godwit/internal/store/postgres/pgdb"
)

// Adopted is a copy of a notification from another store. Times are milliseconds of Unix time; 0: none.
type Adopted struct {
	App         string // of the recipient
	Recipient   int64  // key of the recipient's row
	Pos, Seq    int64
	ID          string
	CollapseKey string // of an open copy
	Priority    notification.Priority
	Ack         notification.AckMode
	Asks        bool // for a reply
	Escalates   bool // it is open and has a row in escalation, which the caller writes

	Created, SendAt, Expires, Delivered, Settled int64

	Hash     int64
	Attempts int32
	Open     bool
	Status   notification.Status // in which it settled
	Content  int64               // open: position of the first of the copies that share its body; 0: it has its own
	Body     []byte              // of an open copy: its content, as package content encodes it
}

// Adopt stores copies from another store in a schema that no server uses meanwhile: open ones in the newest hour, settled ones as stubs of
// the day in which they settled. The caller stores recipients, and the rows beside copies. The schema is the one in the transaction's
// search_path.
func Adopt(ctx context.Context, tx pgx.Tx, list []Adopted) error {
	a := adoption{tx: tx, stubs: make(map[int64][][]any)}
	for i := range list {
		if list[i].Open {
			if err := a.open(&list[i]); err != nil {
				return err
			}
		} else {
			a.settled(&list[i])
		}
	}
	if err := a.writeOpen(ctx); err != nil {
		return pgdb.Error("adopt open notifications", err)
	}
	return pgdb.Error("adopt settled notifications", a.writeStubs(ctx))
}

type adoption struct {
	tx             pgx.Tx
	notes, pending [][]any
	contents       []int64
	bodies         [][]byte
	stubs          map[int64][][]any
}

func (c *Adopted) flags() flags {
	f := flags(c.Priority-notification.High) | flags(c.Ack)<<ackShift
	if c.Asks {
		f |= asksFlag
	}
	if c.Escalates {
		f |= stepsFlag
	}
	return f
}

func (a *adoption) open(c *Adopted) error {
	says, err := content.Decode(c.Body)
	if err != nil {
		return fmt.Errorf("notification %s at %d: %w", c.ID, c.Pos, err)
	}
	var shared, own any
	if c.Content == 0 {
		own = c.Body
	} else if shared = c.Content; !slices.Contains(a.contents, c.Content) {
		a.contents, a.bodies = append(a.contents, c.Content), append(a.bodies, c.Body)
	}
	a.notes = append(a.notes, []any{
		c.Pos, c.Recipient, c.Seq, idKey(c.App, c.ID), c.Created, c.SendAt, c.Expires, c.Hash, shared, int16(c.flags()), c.ID, orNull(c.CollapseKey, ""), own,
	})
	a.pending = append(a.pending, []any{
		c.Recipient, c.Pos, c.Seq, c.Expires, c.SendAt, orNull(c.Delivered, 0), int32(len(says.Title) + len(says.Body) + len(says.Data)), c.Attempts, // below 256 KB
		orNull(collapseHash(c.CollapseKey), 0), int16(c.flags()),
	})
	return nil
}

func orNull[T comparable](v, none T) any {
	if v == none {
		return nil
	}
	return v
}

func (a *adoption) settled(c *Adopted) {
	day := dayAt(c.Settled)
	a.stubs[day] = append(a.stubs[day], []any{
		c.Pos, c.Recipient, c.Seq, idKey(c.App, c.ID), c.Created, c.SendAt, c.Expires, c.Hash, c.Settled, c.Delivered, c.Attempts, int16(c.flags()), int16(c.Status), c.ID,
	})
}

func (a *adoption) writeOpen(ctx context.Context) error {
	if len(a.notes) == 0 {
		return nil
	}
	var hour int64
	if err := a.tx.QueryRow(ctx, "SELECT max(number) FROM hour WHERE NOT sealed").Scan(&hour); err != nil {
		return err
	}
	// Copies that share a body may be in several slices.
	shared := fmt.Sprintf("INSERT INTO content_%d (key, body) SELECT * FROM unnest($1::bigint[], $2::bytea[]) ON CONFLICT DO NOTHING", hour)
	if _, err := a.tx.Exec(ctx, shared, a.contents, a.bodies); err != nil {
		return err
	}
	_, err := a.tx.CopyFrom(ctx, pgx.Identifier{fmt.Sprintf("note_%d", hour)},
		[]string{"pos", "recipient", "seq", "id_key", "created_at", "send_at", "expires_at", "hash", "content", "flags", "id", "collapse_key", "body"}, pgx.CopyFromRows(a.notes))
	if err != nil {
		return err
	}
	_, err = a.tx.CopyFrom(ctx, pgx.Identifier{"pending"},
		[]string{"recipient", "pos", "seq", "expires_at", "send_at", "delivered_at", "bytes", "attempts", "collapse", "flags"}, pgx.CopyFromRows(a.pending))
	return err
}

func (a *adoption) writeStubs(ctx context.Context) error {
	for day, rows := range a.stubs {
		made := false
		if err := a.tx.QueryRow(ctx, "SELECT EXISTS (SELECT FROM day WHERE number = $1)", day).Scan(&made); err != nil {
			return err
		}
		if !made {
			if err := makeDay(ctx, a.tx, day); err != nil {
				return err
			}
		}
		_, err := a.tx.CopyFrom(ctx, pgx.Identifier{fmt.Sprintf("stub_%d", day)},
			[]string{"pos", "recipient", "seq", "id_key", "created_at", "send_at", "expires_at", "hash", "settled_at", "delivered_at", "attempts", "flags", "status", "id"}, pgx.CopyFromRows(rows))
		if err != nil {
			return err
		}
	}
	return nil
}

// EachAdopted reads back all copies of the schema in any order. They equal those that Adopt got, except that the names of apps are missing.
func EachAdopted(ctx context.Context, tx pgx.Tx, each func(*Adopted) error) error {
	hours, err := numbers(ctx, tx, "SELECT number FROM hour WHERE NOT sealed")
	if err != nil {
		return err
	}
	days, err := numbers(ctx, tx, "SELECT number FROM day")
	if err != nil {
		return err
	}
	sql := all(hours, `SELECT n.pos, n.recipient, p.seq, n.id, n.created_at, n.send_at, n.expires_at, 0::bigint, coalesce(p.delivered_at, 0), n.hash, p.attempts, n.flags,
		0::smallint, true, coalesce(n.collapse_key, ''), coalesce(n.content, 0), coalesce(n.body, c.body)
		FROM pending p JOIN note_%[1]d n ON n.recipient = p.recipient AND n.pos = p.pos LEFT JOIN content_%[1]d c ON c.key = n.content`)
	if len(days) > 0 {
		sql += "\nUNION ALL " + all(days, `SELECT pos, recipient, seq, id, created_at, send_at, expires_at, settled_at, delivered_at, hash, attempts, flags,
			status, false, '', 0::bigint, NULL::bytea FROM stub_%[1]d`)
	}
	return eachAdopted(ctx, tx, sql, each)
}

// eachAdopted reads the copies of a query in the form of EachAdopted.
func eachAdopted(ctx context.Context, tx pgx.Tx, sql string, each func(*Adopted) error, args ...any) error {
	rows, err := tx.Query(ctx, sql, args...)
	if err != nil {
		return err
	}
	var c Adopted
	var f flags
	var status int16
	_, err = pgx.ForEachRow(rows, []any{
		&c.Pos, &c.Recipient, &c.Seq, &c.ID, &c.Created, &c.SendAt, &c.Expires, &c.Settled, &c.Delivered, &c.Hash, &c.Attempts, &f, &status,
		&c.Open, &c.CollapseKey, &c.Content, &c.Body,
	}, func() error {
		c.Priority, c.Ack, c.Asks, c.Escalates, c.Status = f.priority(), f.ack(), f.asks(), f.escalates(), notification.Status(status)
		return each(&c)
	})
	return err
}

func numbers(ctx context.Context, tx pgx.Tx, sql string) ([]int64, error) {
	rows, err := tx.Query(ctx, sql)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[int64])
}

// Shard returns the value stored with a recipient besides its names: see shards.
func Shard(app, name string) int { return shardOf(app, name) }
