package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/feeds/source/dbserver"
)

const (
	answerWithin = 10 * time.Second // a question about the server
	slotWithin   = 10 * time.Minute // a slot is made once all transactions that run have ended
	mostMessage  = 1 << 30          // bytes of a row, PostgreSQL's own limit
)

// conn is a connection to the server of a source.
type conn struct {
	*pgconn.PgConn
	version int // 150004 is 15.4
}

// connect connects to the server of a source. replication is set for a connection that reads the log.
func connect(ctx context.Context, t *source.Target, replication bool) (*conn, error) {
	// Values look the same whatever the database or the user sets; the wire is in UTF-8 also if the database is not.
	cfg, err := dbserver.PostgresConfig(t, map[string]string{
		"client_encoding": "UTF8", "DateStyle": "ISO", "IntervalStyle": "postgres", "bytea_output": "hex", "extra_float_digits": "1",
	})
	if err != nil {
		return nil, err
	}
	cfg.MaxProtocolMessageBodyLen = mostMessage
	if replication {
		cfg.RuntimeParams["replication"] = "database"
	}
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	pg, err := pgconn.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, needs(explain(err), replicates)
	}
	c := &conn{PgConn: pg}
	if err := dbserver.Unconverted(ctx, pg); err != nil {
		c.close()
		return nil, explain(err)
	}
	number, _, _ := strings.Cut(pg.ParameterStatus("server_version"), " ")
	major, minor, _ := strings.Cut(number, ".")
	high, _ := strconv.Atoi(major)
	low, _ := strconv.Atoi(minor)
	if c.version = high*10_000 + low; high < 14 {
		c.close()
		return nil, fmt.Errorf("PostgreSQL %.20s is too old: messages of transactions can be read from version 14 on", number)
	}
	return c, nil
}

func (c *conn) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = c.Close(ctx) // the server notices that it is gone
}

// query runs a statement and returns its rows as texts.
func (c *conn) query(ctx context.Context, sql string) (rows [][][]byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	return c.rows(ctx, sql)
}

func (c *conn) rows(ctx context.Context, sql string) (rows [][][]byte, err error) {
	results, err := c.Exec(ctx, sql).ReadAll()
	if err != nil {
		return nil, explain(err)
	}
	for _, r := range results {
		rows = append(rows, r.Rows...)
	}
	return rows, nil
}

func (c *conn) exec(ctx context.Context, sql string) error {
	_, err := c.query(ctx, sql)
	return err
}

// one returns the first column of the only row; false: there is none.
func (c *conn) one(ctx context.Context, sql string) (text string, ok bool, err error) {
	rows, err := c.query(ctx, sql)
	if err != nil || len(rows) == 0 || len(rows[0]) == 0 {
		return "", false, err
	}
	return string(rows[0][0]), true, nil
}

// quoted is an identifier, and literal a text, as SQL has them.
func quoted(name string) string  { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }
func literal(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" } // standard_conforming_strings is on since 9.1

// Codes of errors of the server (PostgreSQL, appendix A).
const (
	codeInUse        = "55006"
	codeNotReady     = "55000" // the slot is lost, or wal_level is too low
	codeNoRight      = "42501"
	codeBadPassword  = "28P01"
	codeNotPermitted = "28000"
)

func coded(err error, code string) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == code
}

// explain adds to an error of the server what to do about it.
func explain(err error) error {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return dbserver.Unreached(err)
	}
	switch pg.Code {
	case codeBadPassword, codeNotPermitted:
		return fmt.Errorf("%w: check the user, the password and pg_hba.conf, which needs a line for replication connections to the database", pg)
	}
	return pg
}

// needs adds to an error of the server what to do if the user lacks a right.
func needs(err error, what string) error {
	if coded(err, codeNoRight) {
		return fmt.Errorf("%w: %s", err, what)
	}
	return err
}

// replicates is what a user needs for a slot.
const replicates = "the user needs the attribute REPLICATION (ALTER ROLE … REPLICATION)"

// system is what IDENTIFY_SYSTEM tells of a server.
type system struct {
	id       string
	timeline int
	at       LSN
}

func (c *conn) identify(ctx context.Context) (s system, err error) {
	rows, err := c.query(ctx, "IDENTIFY_SYSTEM")
	if err != nil || len(rows) != 1 || len(rows[0]) < 3 {
		return s, errors.Join(errors.New("ask PostgreSQL which server it is"), err)
	}
	s.id = string(rows[0][0])
	if s.timeline, err = strconv.Atoi(string(rows[0][1])); err != nil {
		return s, err
	}
	s.at, err = parseLSN(string(rows[0][2]))
	return s, err
}

// end returns the position at which a former timeline branched into the present one; false: it did not.
func (c *conn) end(ctx context.Context, now, former int) (LSN, bool, error) {
	rows, err := c.query(ctx, "TIMELINE_HISTORY "+strconv.Itoa(now))
	if err != nil || len(rows) != 1 || len(rows[0]) != 2 {
		return 0, false, err
	}
	for line := range strings.Lines(string(rows[0][1])) {
		fields := strings.Fields(line)
		if len(fields) >= 2 && fields[0] == strconv.Itoa(former) {
			at, err := parseLSN(fields[1])
			return at, err == nil, err
		}
	}
	return 0, false, nil
}

// slotState is a replication slot as the server shows it.
type slotState struct {
	exists, lost bool
	active       string // process that uses it; empty: none
	confirmed    LSN
	status       string // wal_status
}

func (c *conn) slot(ctx context.Context, name string) (s slotState, err error) {
	rows, err := c.query(ctx, "SELECT coalesce(active_pid::text, ''), coalesce(confirmed_flush_lsn::text, ''), coalesce(wal_status, ''), coalesce(plugin, ''), coalesce(database, ''), current_database() FROM pg_replication_slots WHERE slot_name = "+literal(name))
	if err != nil || len(rows) == 0 {
		return s, err
	}
	r := rows[0]
	s = slotState{exists: true, active: string(r[0]), status: string(r[2])}
	s.lost = s.status == "lost"
	if plugin, database := string(r[3]), string(r[4]); plugin != "pgoutput" || database != string(r[5]) {
		return s, fmt.Errorf("the replication slot %s is of the plug-in %s and the database %s: it belongs to somebody else; set another slot", name, plugin, database)
	}
	if len(r[1]) > 0 {
		s.confirmed, err = parseLSN(string(r[1]))
	}
	return s, err
}

// makeSlot makes a replication slot. The slot has the changes behind a position, and the snapshot has the rows before it. The snapshot lasts
// until the next command.
func (c *conn) makeSlot(ctx context.Context, name string) (at LSN, snapshot string, err error) {
	options := "EXPORT_SNAPSHOT"
	if c.version >= 170_000 {
		options = "(SNAPSHOT 'export', FAILOVER true)" // replicas keep it
	}
	ctx, cancel := context.WithTimeout(ctx, slotWithin)
	defer cancel()
	rows, err := c.rows(ctx, "CREATE_REPLICATION_SLOT "+quoted(name)+" LOGICAL pgoutput "+options)
	if err != nil || len(rows) != 1 || len(rows[0]) < 3 {
		return 0, "", fmt.Errorf("make the replication slot %s: %w", name, needs(err, replicates))
	}
	at, err = parseLSN(string(rows[0][1]))
	return at, string(rows[0][2]), err
}

// dropSlot drops a replication slot, and ends who uses it. It succeeds if there is none.
func (c *conn) dropSlot(ctx context.Context, name string) (err error) {
	for ctx.Err() == nil {
		var s slotState
		if s, err = c.slot(ctx, name); err != nil || !s.exists {
			return err
		}
		if s.active != "" {
			_ = c.exec(ctx, "SELECT pg_terminate_backend("+s.active+")") // it may have ended by itself
		}
		if err = c.exec(ctx, "SELECT pg_drop_replication_slot("+literal(name)+")"); err == nil || !coded(err, codeInUse) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("drop the replication slot %s: %w", name, err)
	}
	return context.Cause(ctx)
}
