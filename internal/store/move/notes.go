package move

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"godwit.dev/godwit/internal/store/postgres/pgdb"
)

//go:embed migrations/*.sql
var files embed.FS

// schema is the name of the schema with the records of the copy's progress.
const schema = "godwit_move"

type tx = pgx.Tx

// The target's schemas, and those of their tables that contain rows from the start or do not matter.
var (
	schemas = []string{"godwit_app", "godwit_mailbox", "godwit_event", "godwit_object", "godwit_campaign"}
	ours    = []string{"migration", "version", "hour", "retention", "head", "emitter"}
)

func openNotes(ctx context.Context, url string, log *slog.Logger) (*pgdb.DB, error) {
	migrations, err := fs.Sub(files, "migrations")
	if err != nil {
		return nil, err
	}
	return pgdb.Open(ctx, pgdb.Config{URL: url, Schema: schema, Migrations: migrations, MaxConns: 3, Now: time.Now, Log: log})
}

// NotEmptyError says that the target has contents that were not copied from the source.
type NotEmptyError struct{ Target, Why string }

func (e *NotEmptyError) Error() string { return e.Target + " is not empty: " + e.Why }

const (
	// moveLock is an advisory lock: "Gdwv".
	moveLock = 0x47647776
	// lockWithin limits the wait for the lock of a killed process: the server notices a broken connection at once, and a connection from a
	// lost machine after keepAlive.
	lockWithin = 30 * time.Second
	// freeWithin limits how long a server that starts waits for the lock, and a copy that ends for its release.
	freeWithin = 5 * time.Second
	keepAlive  = "SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 2"
)

// holding is a connection that holds the lock on a database against servers and other copies.
type holding struct{ conn *pgxpool.Conn }

// HeldError says that servers use the database.
type HeldError struct{ Nodes []string }

func (e *HeldError) Error() string {
	return "the database is in use by " + strings.Join(e.Nodes, ", ")
}

// hold locks a database against other copies, and against servers, which look for the lock once they have taken a lease: see Free. Call unused
// then.
func hold(ctx context.Context, db *pgdb.DB) (*holding, error) {
	conn, err := db.Pool().Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	h := &holding{conn}
	if err := lock(ctx, conn.Conn()); err != nil {
		h.release(ctx)
		return nil, err
	}
	return h, nil
}

// unused checks that the connection still holds the lock, and that no server runs; else it fails with a HeldError.
func (h *holding) unused(ctx context.Context) error {
	nodes, err := pgdb.LiveNodes(ctx, h.conn.Conn())
	if err == nil && len(nodes) > 0 {
		err = &HeldError{nodes}
	}
	return err
}

func (h *holding) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), freeWithin)
	defer cancel()
	_, _ = h.conn.Exec(ctx, "SELECT pg_advisory_unlock_all()") // before the end of the program: a server that starts next finds no lock
	_ = h.conn.Conn().Close(ctx)                               // which ends the lock in any case
	h.conn.Release()
}

func lock(ctx context.Context, conn *pgx.Conn) error {
	if _, err := conn.Exec(ctx, keepAlive+fmt.Sprintf("; SET lock_timeout = %d", lockWithin.Milliseconds()), pgx.QueryExecModeSimpleProtocol); err != nil {
		return err
	}
	_, err := conn.Exec(ctx, "SELECT pg_advisory_lock($1)", moveLock)
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == "55P03" {
		return errors.New("another process copies into this database or out of it")
	}
	return err
}

func (t *toPostgres) checkTarget(ctx context.Context, tx tx) error {
	var store string
	var done int64
	err := tx.QueryRow(ctx, "SELECT store, done_at FROM source").Scan(&store, &done)
	switch {
	case err == nil && store != t.cfg.Files.Store:
		return &NotEmptyError{"the database", "it was filled from another data folder, of the store " + store}
	case err == nil && done != 0:
		return ErrDone
	case !errors.Is(err, pgx.ErrNoRows):
		return err
	}
	filled := slices.Clone(schemas)
	for _, module := range t.cfg.Files.Modules {
		filled = append(filled, module.Schema)
	}
	if err := checkEmpty(ctx, tx, filled); err != nil {
		return err
	}
	if err := t.held.unused(ctx); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, "INSERT INTO source (one, store, begun_at, done_at) VALUES (1, $1, $2, 0)", t.cfg.Files.Store, time.Now().UnixMilli())
	return err
}

// checkEmpty searches for a row in any table of these schemas.
func checkEmpty(ctx context.Context, tx tx, schemas []string) error {
	rows, err := tx.Query(ctx, "SELECT schemaname, tablename FROM pg_tables WHERE schemaname = ANY($1) ORDER BY 1, 2", schemas)
	if err != nil {
		return err
	}
	tables, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (id pgx.Identifier, err error) {
		id = pgx.Identifier{"", ""}
		return id, row.Scan(&id[0], &id[1])
	})
	if err != nil {
		return err
	}
	for _, table := range tables {
		if slices.Contains(ours, table[1]) {
			continue
		}
		found := false
		if err := tx.QueryRow(ctx, "SELECT EXISTS (SELECT FROM "+table.Sanitize()+")").Scan(&found); err != nil {
			return err
		}
		if found {
			return &NotEmptyError{"the database", "there are rows in " + table[0] + "." + table[1]}
		}
	}
	return nil
}

// end makes PostgreSQL analyse the new rows, and records that servers may use the database.
func (t *toPostgres) end(ctx context.Context) error {
	for _, p := range t.parts {
		if p, ok := p.(*table); ok {
			if _, err := t.db.Pool().Exec(ctx, "ANALYZE "+p.id()); err != nil {
				return fmt.Errorf("analyze %s: %w", p.what, err)
			}
		}
	}
	return t.db.Do(ctx, "note the end", func(ctx context.Context, tx tx) error {
		_, err := tx.Exec(ctx, "UPDATE source SET done_at = $1", time.Now().UnixMilli())
		return err
	})
}

// unhurried lets a connection stay open while this process is slow to take rows: its disk may be, for longer than a node may be silent.
const unhurried = "SELECT set_config(name, '0', true) FROM pg_settings WHERE name IN ('tcp_user_timeout', 'idle_in_transaction_session_timeout')"

// inOneView runs f on a single state of the database, for any length of time: no other process writes.
func inOneView(ctx context.Context, db *pgdb.DB, f func(context.Context, tx) error) error {
	return pgx.BeginTxFunc(ctx, db.Pool(), pgdb.Patient("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"), func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, unhurried); err != nil {
			return err
		}
		return f(ctx, tx)
	})
}

// note is the progress of a part.
type note struct {
	name string
	last []any
	rows int64
	done bool
}

func readNote(ctx context.Context, db *pgdb.DB, name string) (*note, error) {
	n := &note{name: name}
	var last string
	err := db.Pool().QueryRow(ctx, "SELECT last, rows, done FROM part WHERE name = $1", name).Scan(&last, &n.rows, &n.done)
	if errors.Is(err, pgx.ErrNoRows) {
		return n, nil
	}
	if err == nil {
		n.last, err = decodeKey(last)
	}
	return n, err
}

func (n *note) save(ctx context.Context, tx tx) error {
	last, err := encodeKey(n.last)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `INSERT INTO godwit_move.part (name, last, rows, done) VALUES ($1, $2, $3, $4)
		ON CONFLICT (name) DO UPDATE SET last = excluded.last, rows = excluded.rows, done = excluded.done`, n.name, last, n.rows, n.done)
	return err
}

// keyValue is a column of a key: numbers keep all their digits, bytes stay bytes.
type keyValue struct {
	Int   *int64  `json:"i,omitempty"`
	Text  *string `json:"t,omitempty"`
	Truth *bool   `json:"o,omitempty"`
	Bytes []byte  `json:"b,omitempty"`
}

func encodeKey(key []any) (string, error) {
	list := make([]keyValue, len(key))
	for i, v := range key {
		switch v := v.(type) {
		case int64:
			list[i].Int = &v
		case string:
			list[i].Text = &v
		case bool:
			list[i].Truth = &v
		case []byte:
			list[i].Bytes = v
		default:
			return "", fmt.Errorf("a key of type %T", v)
		}
	}
	b, err := json.Marshal(list)
	return string(b), err
}

func decodeKey(s string) (key []any, err error) {
	var list []keyValue
	if err := json.Unmarshal([]byte(s), &list); err != nil {
		return nil, fmt.Errorf("the note of what was copied is damaged: %w", err)
	}
	for _, v := range list {
		switch {
		case v.Int != nil:
			key = append(key, *v.Int)
		case v.Text != nil:
			key = append(key, *v.Text)
		case v.Truth != nil:
			key = append(key, *v.Truth)
		default:
			key = append(key, v.Bytes)
		}
	}
	return key, nil
}

// Errors of servers that start on a database.
var (
	// ErrUnfinished says that a copy into the database is unfinished, so that no server may use it yet.
	ErrUnfinished = errors.New("the database is being filled by godwit migrate sqlite-to-postgres: let that finish, or run it again")
	// ErrCopied says that the database is being copied.
	ErrCopied = errors.New("the database is being copied by godwit migrate postgres-to-sqlite: start the server once that has ended")
)

// Finished returns ErrUnfinished if a copy into a database is unfinished.
func Finished(ctx context.Context, db *pgdb.DB) error {
	var there, unfinished bool
	err := db.Pool().QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_tables WHERE schemaname = $1 AND tablename = 'source')", schema).Scan(&there)
	if err == nil && there {
		err = db.Pool().QueryRow(ctx, "SELECT EXISTS (SELECT FROM godwit_move.source WHERE done_at = 0)").Scan(&unfinished)
	}
	if err == nil && unfinished {
		return ErrUnfinished
	}
	return pgdb.Error("look whether the database is being filled", err)
}

// Free returns ErrCopied if a copy of the database is under way. A server that has a lease calls it: a copy looks for leases when it has the
// lock, so one of both sees the other. PostgreSQL may release the lock of a copy that was killed a moment later, so Free waits for that.
func Free(ctx context.Context, db *pgdb.DB) error {
	for begun := time.Now(); ; {
		locked, err := isLocked(ctx, db)
		switch {
		case err != nil:
			return pgdb.Error("look whether the database is being copied", err)
		case !locked:
			return nil
		case time.Since(begun) > freeWithin:
			return ErrCopied
		}
		select {
		case <-time.After(freeWithin / 50):
		case <-ctx.Done():
			return pgdb.Error("look whether the database is being copied", ctx.Err())
		}
	}
}

// isLocked reports whether a copy has the lock.
func isLocked(ctx context.Context, db *pgdb.DB) (locked bool, err error) {
	err = db.Pool().QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND classid = 0 AND objid = $1::bigint::oid AND objsubid = 1
		AND granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))`, moveLock).Scan(&locked)
	return locked, err
}
