package outbox

import (
	"context"
	"crypto/tls"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	driver "github.com/go-sql-driver/mysql"

	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/feeds/source/dbserver"
)

var mysqlServer = dbserver.Server{
	Label: "MySQL", Flag: "mysql", Schemes: []string{"mysql", "mariadb"}, Example: "mysql://user@host:3306/database?sslmode=require", Socket: "socket", Port: "3306",
	Modes: []string{"disable", "prefer", "require", "verify-full"}, Parameters: []string{"user"},
}

var mysql = dialect{
	label: "MySQL", about: "a MySQL 8 or MariaDB 10.6 or later", finding: "poll", none: "id = '1' AND id = '2'", lock: " FOR UPDATE SKIP LOCKED", holds: true, current: true,
	quote: func(name string) string { return "`" + name + "`" }, // checked to have none within
	param: func(int) string { return "?" },
	text:  func(expression string) string { return expression },
	cut:   func(expression string) string { return fmt.Sprintf("LEFT(%s, %d)", expression, maxBody+1) },
	age: func(expression string) string {
		return "TIMESTAMPDIFF(MICROSECOND, " + expression + ", UTC_TIMESTAMP(6)) / 1000000"
	},
}

// mysqlConn is a connection to a MySQL or MariaDB.
type mysqlConn struct {
	db *sql.DB
	*sql.Conn
	tx   *sql.Tx
	lock string
	sole bool // it has the lock of the table's readers, which it keeps
}

func openMySQL(ctx context.Context, t *source.Target, table string) (conn, error) {
	cfg, err := mysqlConfig(t)
	if err != nil {
		return nil, err
	}
	connector, err := driver.NewConnector(cfg)
	if err != nil {
		return nil, fmt.Errorf("connect to MySQL: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	if !strings.Contains(table, ".") {
		table = cfg.DBName + "." + table // the names of locks are those of the whole server
	}
	c := &mysqlConn{db: sql.OpenDB(connector), lock: fmt.Sprintf("godwit %x", uint64(lockOf(table)))} // any number will do
	if c.Conn, err = c.db.Conn(ctx); err == nil {
		err = c.check(ctx)
	}
	if err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// mysqlConfig returns how to connect. Nothing of it comes from the environment or from files of this machine.
func mysqlConfig(t *source.Target) (*driver.Config, error) {
	u, err := url.Parse(t.Values.Text(FieldURL))
	if err != nil {
		return nil, errors.New("the URL of MySQL is damaged") // it was checked when it was set
	}
	q, ca := u.Query(), t.Values.Text(FieldCA)
	cfg := driver.NewConfig()
	cfg.User, cfg.Passwd, cfg.DBName = u.User.Username(), t.Values.Text(FieldPassword), strings.Trim(u.Path, "/")
	if name := q.Get("user"); name != "" {
		cfg.User = name
	}
	cfg.Net, cfg.Addr = "tcp", u.Host
	if u.Port() == "" {
		cfg.Addr = net.JoinHostPort(u.Hostname(), mysqlServer.Port)
	}
	m := dbserver.Mode(q, ca)
	if socket := q.Get("socket"); socket != "" {
		cfg.Net, cfg.Addr, m = "unix", socket, "disable"
	}
	cfg.TLS, cfg.AllowFallbackToPlaintext = encrypted(m, u.Hostname(), ca), m == "" || m == "prefer"
	cfg.DialFunc, cfg.Timeout, cfg.Logger = dbserver.Dialer(t), dbserver.DialWithin, &driver.NopLogger{}
	cfg.ReadTimeout, cfg.WriteTimeout = 2*answerWithin, answerWithin
	cfg.InterpolateParams = true // one round trip a statement
	cfg.Params = maps.Clone(mysqlSession)
	return cfg, nil
}

// mysqlSession are settings of the session. A server's own may change how ids look and which statements it takes, and have it wait a year for an
// ALTER TABLE. It ends the session, and frees its rows, soon after a client is gone without a word. Safe updates find rows by an index in small tables
// too: a DELETE that reads the whole table waits for all rows that others have inserted and not committed.
var mysqlSession = map[string]string{
	"time_zone": "'+00:00'", "sql_mode": "''", "sql_safe_updates": "1", "autocommit": "1", "innodb_lock_wait_timeout": "5", "lock_wait_timeout": "5", "wait_timeout": "30", "net_write_timeout": "30",
}

// check refuses servers without SKIP LOCKED.
func (c *mysqlConn) check(ctx context.Context) error {
	var version string
	if err := c.QueryRowContext(ctx, "SELECT VERSION()").Scan(&version); err != nil {
		return fmt.Errorf("connect to MySQL: %w", err)
	}
	need, name := 8*1000, "MySQL"
	if strings.Contains(version, "MariaDB") {
		need, name = 10*1000+6, "MariaDB"
	}
	parts := strings.Split(strings.TrimPrefix(version, "5.5.5-")+"..", ".") // a former MariaDB's way to look like MySQL
	major, _ := strconv.Atoi(parts[0])
	minor, _ := strconv.Atoi(parts[1])
	if major*1000+minor < need {
		return own("%s %.40s is too old: an outbox needs MySQL 8, or MariaDB 10.6", name, version)
	}
	return nil
}

func (c *mysqlConn) columns(ctx context.Context, t *table) ([]column, error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	rows, err := c.QueryContext(ctx, "SELECT * FROM "+t.sql+" LIMIT 0")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	types, err := rows.ColumnTypes()
	if err != nil {
		return nil, err
	}
	list := make([]column, len(types))
	for i, one := range types {
		list[i].name = one.Name()
		name := one.DatabaseTypeName()
		list[i].id, list[i].time = mysqlID(name), name == "TIMESTAMP" || name == "DATETIME"
	}
	return list, rows.Err()
}

func mysqlID(kind string) idType {
	switch {
	case strings.HasSuffix(kind, "INT"):
		return integers
	case strings.HasSuffix(kind, "BINARY"):
		return octets
	case strings.HasSuffix(kind, "CHAR"):
		return words
	}
	return unfit
}

func (c *mysqlConn) indexes(ctx context.Context, t *table) (list []index, err error) {
	const text = `SELECT MAX(IF(SEQ_IN_INDEX = 1, COLUMN_NAME, '')), COUNT(*) = 1, MAX(NON_UNIQUE) = 0 AND MAX(COALESCE(SUB_PART, 0)) = 0
FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = IF(? = '', DATABASE(), ?) AND TABLE_NAME = ? GROUP BY INDEX_NAME`
	schema, name, found := strings.Cut(t.name, ".")
	if !found {
		schema, name = "", schema
	}
	err = c.query(ctx, text, []arg{{text: schema}, {text: schema}, {text: name}}, func(values [][]byte) bool {
		list = append(list, index{first: strings.ToLower(string(values[0])), alone: string(values[1]) == "1", unique: string(values[2]) == "1"})
		return true
	})
	return list, err
}

func (c *mysqlConn) exec(ctx context.Context, text string, args []arg) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	result, err := c.tx.ExecContext(ctx, text, values(args)...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

func values(args []arg) []any {
	params := make([]any, len(args))
	for i := range args {
		params[i] = args[i].value()
	}
	return params
}

func (c *mysqlConn) query(ctx context.Context, text string, args []arg, each func([][]byte) bool) error {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	in := c.QueryContext
	if c.tx != nil {
		in = c.tx.QueryContext
	}
	rows, err := in(ctx, text, values(args)...)
	if err != nil {
		return err
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		return err
	}
	raw, into, texts := make([]sql.RawBytes, len(names)), make([]any, len(names)), make([][]byte, len(names))
	for i := range raw {
		into[i] = &raw[i]
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		for i, one := range raw {
			texts[i] = one
		}
		if !each(texts) {
			break
		}
	}
	return errors.Join(rows.Err(), rows.Close())
}

// value is a parameter as a database compares it with a column of its type.
func (a *arg) value() any {
	switch {
	case a.is == nothing:
		return nil
	case a.is == octets, !utf8.ValidString(a.text):
		return []byte(a.text)
	case a.is == integers:
		if n, err := strconv.ParseInt(a.text, 10, 64); err == nil {
			return n
		}
		if n, err := strconv.ParseUint(a.text, 10, 64); err == nil {
			return n
		}
	}
	return a.text
}

// begin begins a transaction that locks rows only: the gaps between them stay free for those that are written meanwhile.
func (c *mysqlConn) begin(ctx context.Context) (sole bool, err error) {
	if err := c.claim(ctx); err != nil {
		return false, err
	}
	c.tx, err = c.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	return c.sole, err
}

// claim takes the lock of the table's readers. Clusters may refuse it, as Percona's does; then readers do not know of each other.
func (c *mysqlConn) claim(ctx context.Context) error {
	if c.sole {
		return nil
	}
	err := c.query(ctx, "SELECT GET_LOCK(?, 0)", []arg{{text: c.lock}}, func(values [][]byte) bool {
		c.sole = string(values[0]) != "0"
		return true
	})
	if refused := new(driver.MySQLError); errors.As(err, &refused) {
		c.sole, err = true, nil
	}
	return err
}

func (c *mysqlConn) commit(context.Context) error {
	err := c.tx.Commit()
	c.tx = nil
	return err
}

func (c *mysqlConn) rollback() {
	if c.tx != nil {
		_ = c.tx.Rollback() // without it the connection is of no use, which the next statement finds
		c.tx = nil
	}
}

func (*mysqlConn) wait(ctx context.Context, most time.Duration) (bool, error) {
	return false, rest(ctx, most)
}

func (c *mysqlConn) close() {
	if c.Conn != nil {
		_ = c.Close() // the error is that of the connection
	}
	_ = c.db.Close() // the server notices that it is gone
}

// encrypted returns the TLS settings of a mode, where the database's own driver has none.
func encrypted(mode, host, ca string) *tls.Config {
	switch mode {
	case "disable":
		return nil
	case "verify-full":
		return &tls.Config{ServerName: host, RootCAs: dbserver.Pool(ca), MinVersion: tls.VersionTLS12}
	}
	return &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12} // prefer and require say that the name is not checked
}
