package pgdb

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
)

// Member is a node of the cluster: it has started and has not shut down in order since.
type Member struct {
	Name, Boot string
	Lives      bool          // it holds its name
	Silent     time.Duration // since its last renewal; 0 for a live node
}

// Errors of Forget.
var (
	ErrNodeLives   = errors.New("the node lives: stop it first")
	ErrUnknownNode = errors.New("no such node is missing")
)

const (
	joinMembers = `INSERT INTO member (name, boot, since) VALUES ($2, $3, ` + leaseNow + `)
		ON CONFLICT (name) DO UPDATE SET boot = excluded.boot, since = excluded.since`
	leaveMembers = "DELETE FROM member WHERE name = $1 AND boot = $2"
	listMembers  = `SELECT m.name, m.boot, coalesce(l.until, 0) > ` + leaseNow + `, ` + leaseNow + ` - coalesce(l.until - $2, m.since)
		FROM member m LEFT JOIN lease l ON l.name = $3 || m.name ORDER BY m.name`
	forgetMember = `DELETE FROM member m WHERE m.name = $2 AND NOT EXISTS (SELECT FROM lease l WHERE l.name = $3 || m.name AND l.until > ` + leaseNow + `)`
)

// join makes this node a member.
func (ls *Leases) join(ctx context.Context) error {
	_, err := ls.db.pool.Exec(ctx, joinMembers, ls.now(), ls.cfg.Node, ls.cfg.Boot)
	return Error("join the nodes", err)
}

// leave ends this node's membership at an orderly shutdown.
func (ls *Leases) leave(ctx context.Context) {
	ctx, cancel := Within(ctx, leaseAnswer)
	defer cancel()
	if _, err := ls.db.pool.Exec(ctx, leaveMembers, ls.cfg.Node, ls.cfg.Boot); err != nil {
		ls.cfg.Log.WarnContext(ctx, "this node will be listed as missing, since PostgreSQL could not be told that it ends; take it off with godwit cluster forget", "node", ls.cfg.Node, "error", Late(ctx, err))
	}
}

// Members lists the nodes that belong to the cluster, by name.
func (ls *Leases) Members(ctx context.Context) ([]Member, error) {
	rows, err := ls.db.pool.Query(ctx, listMembers, ls.now(), ls.terms.ttl.Milliseconds(), ofNodes)
	if err != nil {
		return nil, Error("list nodes", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (m Member, err error) {
		var silent int64
		if err = row.Scan(&m.Name, &m.Boot, &m.Lives, &silent); !m.Lives {
			m.Silent = max(time.Duration(silent)*time.Millisecond, 0)
		}
		return m, err
	})
	return list, Error("list nodes", err)
}

// Forget removes a permanently lost node from the list of members. It fails with ErrNodeLives or ErrUnknownNode.
func (ls *Leases) Forget(ctx context.Context, node string) error {
	tag, err := ls.db.pool.Exec(ctx, forgetMember, ls.now(), node, ofNodes)
	if err != nil {
		return Error("forget node "+node, err)
	}
	if tag.RowsAffected() > 0 {
		return nil
	}
	members, err := ls.Members(ctx)
	if err != nil {
		return err
	}
	for _, m := range members {
		if m.Name == node {
			return Error("forget node "+node, ErrNodeLives)
		}
	}
	return Error("forget node "+node, ErrUnknownNode)
}

// MigrateLeases makes the tables of leases where there are none, for code that uses a database without being a node.
func MigrateLeases(ctx context.Context, url string, log *slog.Logger) error {
	files, err := fs.Sub(leaseFiles, "lease")
	if err != nil {
		return fmt.Errorf("read the tables of leases: %w", err)
	}
	return Migrate(ctx, Config{URL: url, Schema: LeaseSchema, Migrations: files, Log: log})
}

// LiveNodes lists the nodes that hold their names, if the database ever had any. conn belongs to none.
func LiveNodes(ctx context.Context, conn *pgx.Conn) (list []string, err error) {
	there := false
	if err := conn.QueryRow(ctx, "SELECT to_regclass('"+LeaseSchema+".lease') IS NOT NULL").Scan(&there); err != nil || !there {
		return nil, Error("list nodes", err)
	}
	const sql = "SELECT substr(name, length($2) + 1) FROM " + LeaseSchema + ".lease WHERE starts_with(name, $2) AND until > " + leaseNow + " ORDER BY name"
	rows, err := conn.Query(ctx, sql, nil, ofNodes)
	if err == nil {
		list, err = pgx.CollectRows(rows, pgx.RowTo[string])
	}
	return list, Error("list nodes", err)
}

// LastUse returns a number that grows whenever a node starts: the greatest epoch of a lease.
func LastUse(ctx context.Context, conn *pgx.Conn) (epoch int64, err error) {
	err = conn.QueryRow(ctx, "SELECT coalesce(max(epoch), 0) FROM "+LeaseSchema+".lease").Scan(&epoch)
	return epoch, Error("read when nodes used the database", err)
}
