package testbed

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"godwit.dev/godwit/bench/meter"
	"godwit.dev/godwit/internal/testkit/pgserver"
)

// Postgres is a PostgreSQL server that holds the stores of measured servers: each server, or each cluster, has a database of its own.
type Postgres struct {
	Version string

	url string
	own *pgserver.Server // nil: it runs by itself
	pid int              // PID of its first process; 0: not visible from here
}

// ownSettings are the settings of a PostgreSQL server that is started here: enough memory for the measurements, and no checkpoint during
// them.
var ownSettings = map[string]string{"shared_buffers": "512MB", "max_wal_size": "4GB", "checkpoint_timeout": "15min"}

// StartPostgres starts the installed PostgreSQL with durable commits. dir is the parent of its data folder; empty: the system's temporary
// folder. settings are more of its settings, name by name.
func StartPostgres(ctx context.Context, dir string, settings map[string]string) (*Postgres, error) {
	all := maps.Clone(ownSettings)
	maps.Copy(all, settings)
	own, err := pgserver.Start(pgserver.Options{Fsync: true, Settings: all, Dir: dir})
	if err != nil {
		return nil, err
	}
	p := &Postgres{url: own.URL(), own: own}
	if err := p.look(ctx); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// OpenPostgres connects to a running server. The URL's user must be allowed to create databases.
func OpenPostgres(ctx context.Context, address string) (*Postgres, error) {
	p := &Postgres{url: address}
	return p, p.look(ctx)
}

// Close stops the server if it was started here.
func (p *Postgres) Close() {
	if p.own != nil {
		p.own.Close()
	}
}

// look reads the server's version and settings.
func (p *Postgres) look(ctx context.Context) error {
	return p.on(ctx, p.url, func(c *pgx.Conn) error {
		if err := c.QueryRow(ctx, "SELECT current_setting('server_version')").Scan(&p.Version); err != nil {
			return err
		}
		var dir string
		if host := c.Config().Host; !strings.HasPrefix(host, "/") && host != "localhost" && !net.ParseIP(host).IsLoopback() {
			return nil
		}
		if err := c.QueryRow(ctx, "SELECT current_setting('data_directory', true)").Scan(&dir); err != nil {
			return nil // not every user may know it: then its CPU time is not measured
		}
		if b, err := os.ReadFile(filepath.Join(dir, "postmaster.pid")); err == nil {
			line, _, _ := bytes.Cut(b, []byte("\n"))
			p.pid, _ = strconv.Atoi(string(line))
		}
		return nil
	})
}

func (p *Postgres) on(ctx context.Context, address string, do func(*pgx.Conn) error) error {
	c, err := pgx.Connect(ctx, address)
	if err != nil {
		return fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	if err := errors.Join(do(c), c.Close(ctx)); err != nil {
		return fmt.Errorf("ask PostgreSQL: %w", err)
	}
	return nil
}

// Spent holds the resources that a PostgreSQL server has used so far.
type Spent struct {
	CPU time.Duration // CPU time of all processes of the server; 0: unknown
	WAL int64         // bytes of write-ahead log
}

// Spent reads the resources used since the server's start.
func (p *Postgres) Spent(ctx context.Context) (s Spent, err error) {
	err = p.on(ctx, p.url, func(c *pgx.Conn) error {
		return c.QueryRow(ctx, "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint").Scan(&s.WAL)
	})
	if err == nil && p.pid > 0 {
		s.CPU, err = meter.Family(append(pgserver.Children(p.pid), p.pid))
	}
	return s, err
}

// Since returns the difference to an earlier reading.
func (s Spent) Since(before Spent) Spent {
	return Spent{CPU: s.CPU - before.CPU, WAL: s.WAL - before.WAL}
}

// Database is a database that holds servers' stores.
type Database struct {
	URL  string
	p    *Postgres
	name string
}

// NewDatabase makes an empty one.
func (p *Postgres) NewDatabase(ctx context.Context) (*Database, error) {
	u, err := url.Parse(p.url)
	if err != nil {
		return nil, err
	}
	var b [6]byte
	_, _ = rand.Read(b[:]) // never fails
	d := &Database{p: p, name: "godwit_bench_" + hex.EncodeToString(b[:])}
	u.Path = "/" + d.name
	d.URL = u.String()
	return d, p.on(ctx, p.url, func(c *pgx.Conn) error {
		_, err := c.Exec(ctx, "CREATE DATABASE "+d.name)
		return err
	})
}

// Exec runs a statement in the database.
func (d *Database) Exec(ctx context.Context, sql string) error {
	return d.p.on(ctx, d.URL, func(c *pgx.Conn) error {
		_, err := c.Exec(ctx, sql)
		return err
	})
}

// Row reads the one row that a query returns into the variables.
func (d *Database) Row(ctx context.Context, sql string, into ...any) error {
	return d.p.on(ctx, d.URL, func(c *pgx.Conn) error { return c.QueryRow(ctx, sql).Scan(into...) })
}

// Hold begins a transaction and leaves it open until release is called, so that PostgreSQL cannot remove dead rows meanwhile.
func (d *Database) Hold(ctx context.Context) (release func() error, err error) {
	c, err := pgx.Connect(ctx, d.URL)
	if err != nil {
		return nil, fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	release = func() error { return c.Close(context.WithoutCancel(ctx)) }
	if _, err := c.Exec(ctx, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class"); err != nil {
		return nil, errors.Join(fmt.Errorf("begin a transaction: %w", err), release())
	}
	return release, nil
}

// dropPatience limits the time for dropping a database, which includes removing its files.
const dropPatience = 30 * time.Second

// Drop removes it.
func (d *Database) Drop() {
	ctx, cancel := context.WithTimeout(context.Background(), dropPatience)
	defer cancel()
	_ = d.p.on(ctx, d.p.url, func(c *pgx.Conn) error { // the error is ignored: the name of a database that remains shows where it comes from
		_, err := c.Exec(ctx, "DROP DATABASE "+d.name+" WITH (FORCE)")
		return err
	})
}
