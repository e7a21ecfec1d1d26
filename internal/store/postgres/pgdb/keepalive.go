package pgdb

import (
	"context"
	"net"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// A lost machine sends nothing. Without these limits the kernel keeps its connections for minutes to hours, on either side, and the server
// keeps the locks of its transactions.
const (
	quietFor   = 2 * time.Second // silence after which the kernel sends keep-alives
	quietAgain = time.Second
	quietAsks  = 3
)

// serverKeepAlive makes the server notice a lost node: by keep-alives if the connection is quiet, by tcp_user_timeout if the server has
// sent bytes that nobody acknowledges. Databases that only speak PostgreSQL's protocol lack some of these settings, so only existing ones
// are set.
const serverKeepAlive = `SELECT set_config(name, value, false) FROM (SELECT name FROM pg_settings) AS s JOIN (VALUES
	('tcp_keepalives_idle', '2'), ('tcp_keepalives_interval', '1'), ('tcp_keepalives_count', '3'), ('tcp_user_timeout', '5000')) AS v(name, value) USING (name)`

// dial returns a dial function whose connections detect a lost server.
func dial(within time.Duration) pgconn.DialFunc {
	d := &net.Dialer{Timeout: within, KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: quietFor, Interval: quietAgain, Count: quietAsks}}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		return d.DialContext(ctx, network, addr)
	}
}
