package pgdb

import (
	"context"

	"github.com/jackc/pgx/v5"
)

const timelineKey = "godwit timeline" // key of a value stored with a connection

// readTimeline stores the timeline of a connection's server with the connection. A server that does not report one has none.
func readTimeline(ctx context.Context, conn *pgx.Conn) error {
	results, err := conn.PgConn().Exec(ctx, "SELECT substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)").ReadAll()
	if err != nil {
		if code(err) != "" && !conn.IsClosed() {
			return nil
		}
		return err
	}
	if len(results) == 1 && len(results[0].Rows) == 1 {
		conn.PgConn().CustomData()[timelineKey] = string(results[0].Rows[0][0])
	}
	return nil
}

// Timeline identifies the database history of a connection's server. It changes when a replica takes over, which may lack the last commits:
// cached data of rows, mainly their keys, must then be dropped.
func Timeline(conn *pgx.Conn) string {
	timeline, _ := conn.PgConn().CustomData()[timelineKey].(string)
	return timeline
}
