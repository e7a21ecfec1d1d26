package pghealth

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Kinds of holders of the horizon.
const (
	Backend  = "backend"  // a session in a transaction
	Replica  = "replica"  // a replica that reports the oldest transaction of its queries (hot_standby_feedback)
	Slot     = "slot"     // a replication slot, of a replica or a logical decoder
	Prepared = "prepared" // a prepared transaction (two-phase commit)
)

// Holder keeps PostgreSQL from removing rows that were deleted or replaced since it began. The oldest holder is the horizon: vacuum removes
// no newer dead row in any table, and each read of a busy table must skip all its dead rows.
type Holder struct {
	Kind    string
	Name    string // process number, or name of the slot or the prepared transaction
	About   string // further details about the holder
	Since   time.Duration
	Known   bool  // Since is known; it is unknown for slots, and for other users' sessions that this user may not see
	Behind  int64 // transactions begun since
	Active  bool  // of a slot: a consumer is connected and advances it
	Catalog bool  // of a slot: it holds back only the system's own tables
}

// Rows has the row counts of a schema's tables, from PostgreSQL's statistics.
type Rows struct {
	Schema     string
	Live, Dead int64
}

// Figures are PostgreSQL's statistics at one moment.
type Figures struct {
	Version                     string
	Connections, MaxConnections int64
	Autovacuum, TrackCounts     bool
	SynchronousCommit           string // of this user's sessions
	User, Database              string
	Monitors                    bool   // the user sees other users' sessions
	Creates                     bool   // the user may make schemas
	Schemas                     int64  // of nodes
	Foreign                     string // those of them that belong to others
	Fsync, FullPageWrites       bool

	Holders  []Holder // the oldest first
	Rows     []Rows
	WALBytes int64 // written since statistics were reset
	Copies   int64 // copies of notifications that all nodes stored since then
}

// Look asks PostgreSQL.
func (h *Health) Look(ctx context.Context) (f Figures, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, lookWithin, fmt.Errorf("PostgreSQL did not answer within %s", lookWithin))
	defer cancel()
	for _, look := range []func(context.Context, *Figures) error{h.settings, h.holders, h.rows} {
		if err := look(ctx, &f); err != nil {
			return f, fmt.Errorf("look at PostgreSQL: %w", errors.Join(err, context.Cause(ctx)))
		}
	}
	return f, nil
}

func (h *Health) settings(ctx context.Context, f *Figures) error {
	const sql = `
SELECT current_setting('server_version'), current_setting('max_connections')::bigint,
	(SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'),
	current_setting('autovacuum')::boolean, current_setting('track_counts')::boolean, current_setting('synchronous_commit'),
	current_setting('fsync')::boolean, current_setting('full_page_writes')::boolean, 
	quote_ident(current_user), quote_ident(current_database()), pg_has_role('pg_read_all_stats', 'USAGE'), has_database_privilege(current_database(), 'CREATE'),
	(SELECT count(*) FROM pg_namespace WHERE starts_with(nspname, 'godwit_')),
	(SELECT coalesce(string_agg(nspname, ', ' ORDER BY nspname), '') FROM pg_namespace WHERE starts_with(nspname, 'godwit_') AND NOT pg_has_role(nspowner, 'USAGE')),
	(SELECT wal_bytes::bigint FROM pg_stat_wal),
	coalesce((SELECT n_tup_ins FROM pg_stat_user_tables WHERE schemaname = 'godwit_mailbox' AND relname = 'pending'), 0)`
	return h.db.Pool().QueryRow(ctx, sql).Scan(&f.Version, &f.MaxConnections, &f.Connections, &f.Autovacuum, &f.TrackCounts,
		&f.SynchronousCommit, &f.Fsync, &f.FullPageWrites,
		&f.User, &f.Database, &f.Monitors, &f.Creates, &f.Schemas, &f.Foreign, &f.WALBytes, &f.Copies)
}

// holdersSQL lists holders without those that vacuum itself ignores: sessions of other databases, and vacuum.
const holdersSQL = `
SELECT CASE backend_type WHEN 'walsender' THEN 'replica' ELSE 'backend' END AS kind, pid::text AS name,
	concat_ws(', ', nullif(application_name, ''), 'user ' || usename, 'from ' || client_addr::text, nullif(state, '')) AS about,
	extract(epoch FROM clock_timestamp() - xact_start)::float8 AS seconds,
	greatest(age(backend_xid), age(backend_xmin))::bigint AS behind, true AS active, false AS catalog
FROM pg_stat_activity
WHERE (backend_xid IS NOT NULL OR backend_xmin IS NOT NULL) AND pid <> pg_backend_pid()
	AND (datname = current_database() OR backend_type = 'walsender') AND backend_type <> 'autovacuum worker'
	AND pid NOT IN (SELECT pid FROM pg_stat_progress_vacuum)
UNION ALL
SELECT 'slot', slot_name::text, concat_ws(', ', slot_type, 'database ' || database, CASE WHEN active THEN 'in use' ELSE 'nobody uses it' END), NULL,
	greatest(age(xmin), age(catalog_xmin)), active, xmin IS NULL
FROM pg_replication_slots WHERE xmin IS NOT NULL OR catalog_xmin IS NOT NULL
UNION ALL
SELECT 'prepared', gid, 'user ' || owner, extract(epoch FROM clock_timestamp() - prepared)::float8, age(transaction), true, false
FROM pg_prepared_xacts WHERE database = current_database()
ORDER BY behind DESC, seconds DESC NULLS LAST, kind, name`

func (h *Health) holders(ctx context.Context, f *Figures) error {
	rows, err := h.db.Pool().Query(ctx, holdersSQL)
	if err != nil {
		return err
	}
	f.Holders, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (o Holder, err error) {
		var seconds *float64
		if err := row.Scan(&o.Kind, &o.Name, &o.About, &seconds, &o.Behind, &o.Active, &o.Catalog); err != nil || seconds == nil {
			return o, err
		}
		o.Since, o.Known = time.Duration(*seconds*float64(time.Second)), true
		return o, nil
	})
	return err
}

func (h *Health) rows(ctx context.Context, f *Figures) error {
	const sql = `SELECT schemaname, sum(n_live_tup)::bigint, sum(n_dead_tup)::bigint
FROM pg_stat_user_tables WHERE schemaname IN ('godwit_app', 'godwit_campaign', 'godwit_event', 'godwit_lease', 'godwit_mailbox', 'godwit_object')
GROUP BY schemaname ORDER BY schemaname`
	rows, err := h.db.Pool().Query(ctx, sql)
	if err != nil {
		return err
	}
	f.Rows, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (r Rows, err error) {
		return r, row.Scan(&r.Schema, &r.Live, &r.Dead)
	})
	return err
}
