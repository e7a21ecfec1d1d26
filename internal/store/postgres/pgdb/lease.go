package pgdb

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
)

// ErrLost reports that this node has lost the lease, so that another node may do its work.
var ErrLost = errors.New("the lease is lost: another node does this now")

// Lease is the right to do work that only one node at a time may do. It lasts from its acquisition until it is lost.
type Lease struct {
	of     *Leases
	name   string
	epoch  int64
	ends   atomic.Int64 // by the monotonic clock; before others may take the lease
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when the owner's function has returned
	lost   bool          // under the lock of Leases
}

// Name returns the lease's name, which identifies its work.
func (l *Lease) Name() string { return l.name }

// Epoch is greater than the epochs of all earlier holders of the lease.
func (l *Lease) Epoch() int64 { return l.epoch }

// Held reports whether this node certainly holds the lease now. Call it before each action outside the database: a process that was
// suspended does not notice by itself that its lease has ended.
func (l *Lease) Held() bool { return l.of.tick() < time.Duration(l.ends.Load()) }

// Check fails with ErrLost unless the lease is held, and keeps it from being taken over until the transaction ends. Each
// transaction that does the lease's work calls Check first.
func (l *Lease) Check(ctx context.Context, tx pgx.Tx) error {
	var one int
	err := tx.QueryRow(ctx, "SELECT 1 FROM "+l.of.table+" WHERE name = $1 AND holder = $2 AND epoch = $3 FOR KEY SHARE", l.name, l.of.holder, l.epoch).Scan(&one)
	if errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("%s: %w", l.name, ErrLost)
	}
	return err
}

// extend sets the owner's end of a lease that was renewed by a request sent at the moment asked.
func (l *Lease) extend(asked time.Duration) {
	l.ends.Store(int64(asked + l.of.terms.ttl - l.of.terms.margin))
}

// returned reports whether the owner's function has ended.
func (l *Lease) returned() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// leaseNow is the database's time unless a test sets the time, so that nodes with different clocks agree about who holds a lease.
const leaseNow = "coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint)"

// renew extends those of the named leases that this node still holds, in one statement, and returns their names.
func (ls *Leases) renew(ctx context.Context, names []string, epochs []int64) (map[string]bool, error) {
	rows, err := ls.db.pool.Query(ctx, `UPDATE lease SET until = `+leaseNow+` + $2
		FROM unnest($4::text[], $5::bigint[]) AS mine (name, epoch)
		WHERE lease.name = mine.name AND lease.epoch = mine.epoch AND holder = $3 AND until > `+leaseNow+` RETURNING lease.name`,
		ls.now(), ls.terms.ttl.Milliseconds(), ls.holder, names, epochs)
	if err != nil {
		return nil, err
	}
	renewed := make(map[string]bool, len(names))
	var name string
	_, err = pgx.ForEachRow(rows, []any{&name}, func() error { renewed[name] = true; return nil })
	return renewed, err
}

// take acquires the named leases that nobody holds, and returns their epochs.
func (ls *Leases) take(ctx context.Context, names []string) (map[string]int64, error) {
	rows, err := ls.db.pool.Query(ctx, `WITH free AS (
			SELECT name FROM lease WHERE name = ANY($4) AND until <= `+leaseNow+` ORDER BY name FOR UPDATE SKIP LOCKED
		)
		UPDATE lease SET holder = $3, epoch = greatest(epoch + 1, `+leaseNow+`), until = `+leaseNow+` + $2
		FROM free WHERE lease.name = free.name RETURNING lease.name, epoch`,
		ls.now(), ls.terms.ttl.Milliseconds(), ls.holder, names)
	if err != nil {
		return nil, err
	}
	taken := map[string]int64{}
	var name string
	var epoch int64
	_, err = pgx.ForEachRow(rows, []any{&name, &epoch}, func() error { taken[name] = epoch; return nil })
	return taken, err
}

// add makes rows for names that have none.
func (ls *Leases) add(ctx context.Context, names []string) error {
	_, err := ls.db.pool.Exec(ctx, "INSERT INTO lease (name, holder, epoch, until) SELECT name, '', 0, "+leaseNow+" FROM unnest($2::text[]) AS new (name) ORDER BY name ON CONFLICT DO NOTHING",
		ls.now(), names)
	return err
}

// giveUp releases leases that this node holds.
func (ls *Leases) giveUp(ctx context.Context, names []string, epochs []int64) error {
	_, err := ls.db.pool.Exec(ctx, `UPDATE lease SET until = `+leaseNow+` FROM unnest($3::text[], $4::bigint[]) AS mine (name, epoch)
		WHERE lease.name = mine.name AND lease.epoch = mine.epoch AND holder = $2`, ls.now(), ls.holder, names, epochs)
	return err
}

// free releases the leases of a process that has ended.
func (ls *Leases) free(ctx context.Context, holder string) error {
	_, err := ls.db.pool.Exec(ctx, "UPDATE lease SET until = "+leaseNow+" WHERE holder = $2 AND until > "+leaseNow, ls.now(), holder)
	return err
}

// tidy deletes the rows of leases that nobody has held for a long time, such as those of deleted apps. A later holder still gets a greater
// epoch.
func (ls *Leases) tidy(ctx context.Context) error {
	_, err := ls.db.pool.Exec(ctx, "DELETE FROM lease WHERE until < "+leaseNow+" - $2 AND NOT EXISTS (SELECT FROM member m WHERE lease.name = $3 || m.name)",
		ls.now(), keepUnheld.Milliseconds(), ofNodes)
	return err
}

// Held is the holder of a lease.
type Held struct {
	Name  string
	Node  string
	Epoch int64
	For   time.Duration // time until the lease ends if it is not renewed
}

// List lists the held leases by name.
func (ls *Leases) List(ctx context.Context) ([]Held, error) {
	rows, err := ls.db.pool.Query(ctx, "SELECT name, split_part(holder, '/', 1), epoch, until - "+leaseNow+" FROM lease WHERE until > "+leaseNow+" ORDER BY name", ls.now())
	if err != nil {
		return nil, Error("list leases", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (h Held, err error) {
		var millis int64
		err = row.Scan(&h.Name, &h.Node, &h.Epoch, &millis)
		h.For = time.Duration(millis) * time.Millisecond
		return h, err
	})
	return list, Error("list leases", err)
}

// Alive lists the boots of all nodes that hold the lease on their name.
func (ls *Leases) Alive(ctx context.Context) ([]string, error) {
	rows, err := ls.db.pool.Query(ctx, "SELECT split_part(holder, '/', 2) FROM lease WHERE until > "+leaseNow+" AND starts_with(name, $2) ORDER BY name", ls.now(), ofNodes)
	if err != nil {
		return nil, Error("list nodes", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	return list, Error("list nodes", err)
}
