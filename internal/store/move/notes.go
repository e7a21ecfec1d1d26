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
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

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
	ours    = []string{"migration", "version", "hour", "retention", "head"}
)

func openNotes(ctx context.Context, url string, log *slog.Logger) (*pgdb.DB, error) {
	migrations, err := fs.Sub(files, "migrations")
	if err != nil {
		return nil, err
	}
	return pgdb.Open(ctx, pgdb.Config{URL: url, Schema: schema, Migrations: migrations, MaxConns: 3, Now: time.Now, Log: log})
}

// NotEmptyError says that the database has contents that were not copied from this data folder.
type NotEmptyError struct{ Why string }

func (e *NotEmptyError) Error() string { return "the database is not empty: " + e.Why }

const (
	// moveLock is an advisory lock: "Gdwv".
	moveLock = 0x47647776
	// lockWithin limits the wait for the lock of a killed process: the server notices a broken connection at once, and a connection from a
	// lost machine after keepAlive.
	lockWithin = 30 * time.Second
	keepAlive  = "SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 2"
)

// begin locks the target against other copies, and checks that the target's contents were copied from this store.
func (m *mover) begin(ctx context.Context) (unlock func(), err error) {
	conn, err := m.db.Pool().Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	unlock = func() {
		_ = conn.Conn().Close(context.WithoutCancel(ctx)) // which ends the lock
		conn.Release()
	}
	if err = lock(ctx, conn.Conn()); err == nil {
		err = m.db.Do(ctx, "look what is in the database", m.checkTarget)
	}
	if err != nil {
		unlock()
		return nil, err
	}
	return unlock, nil
}

func lock(ctx context.Context, conn *pgx.Conn) error {
	if _, err := conn.Exec(ctx, keepAlive+fmt.Sprintf("; SET lock_timeout = %d", lockWithin.Milliseconds()), pgx.QueryExecModeSimpleProtocol); err != nil {
		return err
	}
	_, err := conn.Exec(ctx, "SELECT pg_advisory_lock($1)", moveLock)
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == "55P03" {
		return errors.New("another process is copying into this database")
	}
	return err
}

func (m *mover) checkTarget(ctx context.Context, tx tx) error {
	var store string
	var done int64
	err := tx.QueryRow(ctx, "SELECT store, done_at FROM source").Scan(&store, &done)
	switch {
	case err == nil && store != m.cfg.From.Store:
		return &NotEmptyError{"it was filled from another data folder, of the store " + store}
	case err == nil && done != 0:
		return ErrDone
	case !errors.Is(err, pgx.ErrNoRows):
		return err
	}
	filled := slices.Clone(schemas)
	for _, module := range m.cfg.From.Modules {
		filled = append(filled, module.Schema)
	}
	if err := checkEmpty(ctx, tx, filled); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, "INSERT INTO source (one, store, begun_at, done_at) VALUES (1, $1, $2, 0)", m.cfg.From.Store, time.Now().UnixMilli())
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
			return &NotEmptyError{"there are rows in " + table[0] + "." + table[1]}
		}
	}
	return nil
}

// end makes PostgreSQL analyse the new rows, and records that servers may use the database.
func (m *mover) end(ctx context.Context) error {
	for _, p := range m.parts {
		if t, ok := p.(*table); ok {
			if _, err := m.db.Pool().Exec(ctx, "ANALYZE "+pgx.Identifier{t.schema, t.table}.Sanitize()); err != nil {
				return fmt.Errorf("analyze %s: %w", t.what, err)
			}
		}
	}
	return m.db.Do(ctx, "note the end", func(ctx context.Context, tx tx) error {
		_, err := tx.Exec(ctx, "UPDATE source SET done_at = $1", time.Now().UnixMilli())
		return err
	})
}

// inOneView runs f on a single state of the database, for any length of time: no other process writes.
func (m *mover) inOneView(ctx context.Context, f func(context.Context, tx) error) error {
	return pgx.BeginTxFunc(ctx, m.db.Pool(), pgdb.Patient("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"), func(tx pgx.Tx) error { return f(ctx, tx) })
}

// note is the progress of a part.
type note struct {
	name string
	last []any
	rows int64
	done bool
}

func (m *mover) note(ctx context.Context, name string) (*note, error) {
	n := &note{name: name}
	var last string
	err := m.db.Pool().QueryRow(ctx, "SELECT last, rows, done FROM part WHERE name = $1", name).Scan(&last, &n.rows, &n.done)
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
		default:
			key = append(key, v.Bytes)
		}
	}
	return key, nil
}

// ErrUnfinished says that a copy into the database is unfinished, so that no server may use it yet.
var ErrUnfinished = errors.New("the database is being filled by godwit migrate sqlite-to-postgres: let that finish, or run it again")

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
