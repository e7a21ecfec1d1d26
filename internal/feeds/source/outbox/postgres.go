package outbox

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/feeds/source/dbserver"
)

var postgresServer = dbserver.PostgreSQL("postgres://user@host:5432/database?sslmode=require")

var postgres = dialect{
	label: "PostgreSQL", about: "a PostgreSQL, also where its log cannot be read", finding: "listen", none: "1 = 0", lock: " FOR UPDATE OF o SKIP LOCKED", holds: true, quote: quoted,
	param: func(n int) string { return "$" + strconv.Itoa(n) },
	text:  func(expression string) string { return expression + "::text" },
	cut:   func(expression string) string { return fmt.Sprintf("left(%s::text, %d)", expression, maxBody+1) },
	age:   func(expression string) string { return "extract(epoch FROM now() - " + expression + ")" },
}

// Types of columns in PostgreSQL, by the numbers that its catalog gives them.
var (
	pgIntegers = map[uint32]bool{20: true, 21: true, 23: true}
	pgTimes    = map[uint32]bool{1082: true, 1114: true, 1184: true}
	pgOctets   = uint32(17)
)

// pgConn is a connection to PostgreSQL.
type pgConn struct {
	*pgconn.PgConn
	told bool // it has told of new rows since the last wait
	open bool // a transaction is
	lock int64
}

func openPostgres(ctx context.Context, t *source.Target, table string) (conn, error) {
	cfg, err := dbserver.PostgresConfig(t, map[string]string{"client_encoding": "UTF8"})
	if err != nil {
		return nil, err
	}
	c := &pgConn{lock: lockOf(table)}
	cfg.OnNotification = func(*pgconn.PgConn, *pgconn.Notification) { c.told = true }
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	if c.PgConn, err = pgconn.ConnectConfig(ctx, cfg); err != nil {
		return nil, explain(err)
	}
	if err := dbserver.Unconverted(ctx, c.PgConn); err != nil {
		c.close()
		return nil, explain(err)
	}
	channel := table[strings.LastIndex(table, ".")+1:]
	if err := c.query(ctx, "LISTEN "+quoted(channel), nil, nil); err != nil {
		c.close()
		return nil, fmt.Errorf("listen: %w", err)
	}
	return c, nil
}

func (c *pgConn) columns(ctx context.Context, t *table) ([]column, error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	d, err := c.Prepare(ctx, "", "SELECT * FROM "+t.sql, nil)
	if err != nil {
		return nil, explain(err)
	}
	var list []column
	for _, f := range d.Fields {
		one := column{name: f.Name, bad: f.DataTypeOID == pgOctets, time: pgTimes[f.DataTypeOID]}
		if pgIntegers[f.DataTypeOID] {
			one.id = integers
		}
		list = append(list, one)
	}
	return list, nil
}

func (c *pgConn) indexes(ctx context.Context, t *table) (list []index, err error) {
	const text = `SELECT a.attname, i.indnkeyatts = 1, i.indisunique, coalesce(pg_get_expr(i.indpred, i.indrelid), '')
FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0] WHERE i.indrelid = $1::regclass AND i.indisvalid`
	err = c.query(ctx, text, []arg{{text: t.sql}}, func(values [][]byte) bool {
		list = append(list, index{first: string(values[0]), alone: string(values[1]) == "t", unique: string(values[2]) == "t", partial: string(values[3])})
		return true
	})
	return list, err
}

func (c *pgConn) query(ctx context.Context, sql string, args []arg, each func([][]byte) bool) error {
	_, err := c.execute(ctx, sql, args, each)
	return err
}

func (c *pgConn) exec(ctx context.Context, sql string, args []arg) (int64, error) {
	return c.execute(ctx, sql, args, func([][]byte) bool { return true })
}

func (c *pgConn) execute(ctx context.Context, sql string, args []arg, each func([][]byte) bool) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	values := make([][]byte, len(args))
	for i, a := range args {
		values[i] = []byte(a.text)
	}
	r := c.ExecParams(ctx, sql, values, nil, nil, nil)
	for goes := true; r.NextRow(); {
		goes = goes && each(r.Values()) // rows behind are read from the connection, and left
	}
	tag, err := r.Close()
	return tag.RowsAffected(), explain(err)
}

// begin begins a transaction. Its settings end with it, so that a pool of connections before the server has no part in them.
func (c *pgConn) begin(ctx context.Context) (sole bool, err error) {
	const settings = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL TimeZone = 'UTC'; SET LOCAL DateStyle = 'ISO'; SET LOCAL statement_timeout = '10s'; SET LOCAL lock_timeout = '5s'; SET LOCAL idle_in_transaction_session_timeout = '20s'; "
	results, err := c.simple(ctx, fmt.Sprintf("%sSELECT pg_try_advisory_xact_lock(%d)", settings, c.lock))
	if c.open = err == nil; !c.open {
		return false, err
	}
	rows := results[len(results)-1].Rows
	return len(rows) == 1 && string(rows[0][0]) == "t", nil
}

func (c *pgConn) commit(ctx context.Context) error {
	c.open = false
	_, err := c.simple(ctx, "COMMIT")
	return err
}

func (c *pgConn) rollback() {
	if c.open && !c.IsClosed() {
		c.open = false
		_, _ = c.simple(context.Background(), "ROLLBACK") // without it the connection is of no use, which the next statement finds
	}
}

func (c *pgConn) simple(ctx context.Context, sql string) ([]*pgconn.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	results, err := c.Exec(ctx, sql).ReadAll()
	return results, explain(err)
}

func (c *pgConn) wait(ctx context.Context, most time.Duration) (woken bool, err error) {
	if !c.told {
		within, cancel := context.WithTimeout(ctx, most)
		defer cancel()
		err = c.WaitForNotification(within)
		if err != nil && within.Err() != nil && ctx.Err() == nil {
			err = nil
		}
	}
	woken, c.told = c.told, false
	return woken, err
}

func (c *pgConn) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = c.Close(ctx) // the server notices that it is gone
}
