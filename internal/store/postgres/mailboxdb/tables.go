package mailboxdb

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"godwit.dev/godwit/internal/store/postgres/pgdb"
)

// tableSet lists the existing tables, oldest first. It is immutable: a change replaces it.
type tableSet struct {
	hours []int64 // not sealed
	dones []int64 // hours, and the hour before the first of them
	days  []int64
	texts *sync.Map // cached statements that query all of these tables, by purpose
}

// tables tracks the tables of hours and days. Tables are made ahead, so that other nodes know them before they hold rows. A statement that
// names a dropped table fails, is composed again and repeated.
type tables struct {
	s   *Store
	mu  sync.Mutex // held while the list of tables is read or tables are made
	set atomic.Pointer[tableSet]
}

const (
	// lookEvery is how often a node checks which tables other nodes have made or dropped. Hours' tables are made ahead, so every node knows
	// an hour's table before the hour begins.
	lookEvery = 10 * time.Second
	dayLength = 24 * time.Hour
)

// Advisory locks of a schema, by their first half: "Gdwm" and the number after it.
const (
	lockTables = 0x4764776d + iota
	lockSeal
)

func (t *tables) hourAt(ms int64) int64 { return ms / t.s.cfg.hour.Milliseconds() }

func dayAt(ms int64) int64 { return ms / dayLength.Milliseconds() }

// now returns the current tables, which include that of the current hour.
func (t *tables) now(ctx context.Context) (*tableSet, error) {
	set := t.set.Load()
	if set != nil && slices.Contains(set.hours, t.hourAt(t.s.nowMS())) {
		return set, nil
	}
	if err := t.ensure(ctx); err != nil {
		return nil, err
	}
	return t.set.Load(), nil
}

// ensure reads which tables exist and makes those of this hour and the next.
func (t *tables) ensure(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	hour := t.hourAt(t.s.nowMS())
	wanted := []int64{hour, hour + 1}
	set, err := t.read(ctx, t.s.db.Pool())
	if err != nil {
		return err
	}
	missing := func(h int64) bool { return !slices.Contains(set.hours, h) }
	if slices.ContainsFunc(wanted, missing) {
		err := t.s.db.Do(ctx, "make the tables of an hour", func(ctx context.Context, tx pgx.Tx) error {
			if err := t.lock(ctx, tx, lockTables); err != nil {
				return err
			}
			if set, err = t.read(ctx, tx); err != nil { // another node may have made them meanwhile
				return err
			}
			for _, h := range slices.DeleteFunc(wanted, func(h int64) bool { return !missing(h) }) {
				if err := makeHour(ctx, tx, h); err != nil {
					return err
				}
				set.hours, set.dones = append(set.hours, h), append(set.dones, h)
			}
			return nil
		})
		if err != nil {
			return err
		}
		slices.Sort(set.hours)
		slices.Sort(set.dones)
	}
	t.set.Store(set)
	return nil
}

// keep calls ensure regularly, until the store is closed.
func (t *tables) keep() {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-t.s.closing:
			return
		case <-tick.C:
		}
		ctx, cancel := context.WithTimeout(context.Background(), lookEvery)
		if err := errors.Join(t.ensure(ctx), t.s.lookUsed(ctx)); err != nil && !t.s.closed() {
			t.s.cfg.Log.WarnContext(ctx, "tables of mailboxes could not be looked up", "error", err)
		}
		cancel()
	}
}

type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

func (t *tables) read(ctx context.Context, q querier) (*tableSet, error) {
	set := &tableSet{texts: &sync.Map{}}
	rows, err := q.Query(ctx, "SELECT 0, number, sealed FROM hour UNION ALL SELECT 1, number, false FROM day ORDER BY 1, 2")
	if err != nil {
		return nil, pgdb.Error("list the tables of mailboxes", err)
	}
	var kind int
	var number int64
	var sealed bool
	_, err = pgx.ForEachRow(rows, []any{&kind, &number, &sealed}, func() error {
		if kind == 1 {
			set.days = append(set.days, number)
			return nil
		}
		set.dones = append(set.dones, number)
		if !sealed {
			set.hours = append(set.hours, number)
		}
		return nil
	})
	return set, pgdb.Error("list the tables of mailboxes", err)
}

// lock waits for an advisory lock of this schema, which ends with the transaction.
func (t *tables) lock(ctx context.Context, tx pgx.Tx, kind int32) error {
	_, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1, $2)", kind, t.lockKey())
	return err
}

func (t *tables) lockKey() int32 {
	h := fnv.New32a()
	h.Write([]byte(t.s.cfg.Schema))
	return int32(h.Sum32()) // any number will do
}

// makeHour makes the tables of an hour. Nothing in them needs vacuum: rows are inserted, and all are dropped at once.
func makeHour(ctx context.Context, tx pgx.Tx, hour int64) error {
	const ddl = `
CREATE TABLE note_%[1]d (
	pos          bigint NOT NULL,
	recipient    bigint NOT NULL,
	seq          bigint NOT NULL, -- 0: it was scheduled
	id_key       bigint NOT NULL,
	created_at   bigint NOT NULL,
	send_at      bigint,          -- of one that was scheduled
	expires_at   bigint NOT NULL,
	hash         bigint NOT NULL, -- of title, body, category and data
	content      bigint,          -- where copies share one
	flags        smallint NOT NULL,
	id           text COLLATE "C" NOT NULL,
	collapse_key text COLLATE "C",
	body         bytea,
	PRIMARY KEY (recipient, pos)
) WITH (autovacuum_enabled = false, toast.autovacuum_enabled = false);
ALTER TABLE note_%[1]d ALTER body SET STORAGE EXTERNAL;
CREATE INDEX ON note_%[1]d (id_key, recipient);
CREATE TABLE content_%[1]d (
	key  bigint PRIMARY KEY, -- position of the first copy
	body bytea NOT NULL
) WITH (autovacuum_enabled = false, toast.autovacuum_enabled = false);
ALTER TABLE content_%[1]d ALTER body SET STORAGE EXTERNAL;
CREATE TABLE done_%[1]d ( -- what settled in this hour; and below position 0 traces of commits, see unsure.go
	pos          bigint PRIMARY KEY,
	settled_at   bigint NOT NULL,
	delivered_at bigint, -- null: not known
	seq          bigint, -- of one that was scheduled
	attempts     integer NOT NULL,
	status       smallint NOT NULL
) WITH (autovacuum_enabled = false);
INSERT INTO hour (number) VALUES (%[1]d)`
	_, err := tx.Conn().PgConn().Exec(ctx, fmt.Sprintf(ddl, hour)).ReadAll()
	return pgdb.Error(fmt.Sprintf("make the tables of hour %d", hour), err)
}

// makeDay makes a day's table of stubs, which sealing fills.
func makeDay(ctx context.Context, tx pgx.Tx, day int64) error {
	const ddl = `
CREATE TABLE stub_%[1]d (
	pos          bigint NOT NULL,
	recipient    bigint NOT NULL,
	seq          bigint NOT NULL,
	id_key       bigint NOT NULL,
	created_at   bigint NOT NULL,
	send_at      bigint,
	expires_at   bigint NOT NULL,
	hash         bigint NOT NULL,
	settled_at   bigint NOT NULL,
	delivered_at bigint,
	attempts     integer NOT NULL,
	flags        smallint NOT NULL,
	status       smallint NOT NULL,
	id           text COLLATE "C" NOT NULL,
	PRIMARY KEY (recipient, pos)
) WITH (autovacuum_enabled = false);
CREATE INDEX ON stub_%[1]d (id_key, recipient);
INSERT INTO day (number) VALUES (%[1]d)`
	_, err := tx.Conn().PgConn().Exec(ctx, fmt.Sprintf(ddl, day)).ReadAll()
	return pgdb.Error(fmt.Sprintf("make the table of day %d", day), err)
}

// dropped reports whether a statement named a table that is gone.
func dropped(err error) bool {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return false
	}
	// If the table was dropped while the statement waited for its lock, PostgreSQL reports an internal error: the name had been resolved
	// before.
	return pg.Code == "42P01" || pg.Code == "XX000" && strings.Contains(pg.Message, "could not open relation")
}

// tableTries limits the tries of a statement while the list of tables stays the same.
const tableTries = 5

// with runs f on the current tables, and repeats it if one of them was dropped meanwhile.
func (t *tables) with(ctx context.Context, f func(set *tableSet) error) error {
	for try := 1; ; try++ {
		set, err := t.now(ctx)
		if err != nil {
			return err
		}
		if err = f(set); !dropped(err) || try == tableTries {
			return err
		}
		if err := t.ensure(ctx); err != nil {
			return err
		}
		if now := t.set.Load(); !slices.Equal(now.dones, set.dones) || !slices.Equal(now.hours, set.hours) || !slices.Equal(now.days, set.days) {
			try = 0 // the tables changed while the statement ran
		}
	}
}
