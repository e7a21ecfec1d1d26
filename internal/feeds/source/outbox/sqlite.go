package outbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	lite "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"godwit.dev/godwit/internal/feeds/source"
)

var sqlite = dialect{
	label: "SQLite", about: "a SQLite file on the server's machine", finding: "poll", quote: quoted,
	param: func(int) string { return "?" },
	text:  func(expression string) string { return "CAST(" + expression + " AS TEXT)" },
	cut:   func(expression string) string { return fmt.Sprintf("substr(%s, 1, %d)", expression, maxBody+1) },
	age:   func(expression string) string { return "(julianday('now') - julianday(" + expression + ")) * 86400" },
}

// sqliteConn is a connection to a SQLite file.
type sqliteConn struct {
	*lite.Conn
	open bool // a transaction is
}

// openSQLite opens an existing file. A key for the API alone must not find out which files there are.
func openSQLite(ctx context.Context, t *source.Target, ours func(path string) bool) (conn, error) {
	if !t.Private {
		return nil, errors.New("a SQLite file is read only if the source was set with godwit source add on the server's data folder, or the server allows private addresses")
	}
	path, err := filepath.EvalSymlinks(t.Values.Text(FieldPath))
	if err != nil {
		return nil, fmt.Errorf("open the SQLite file: %w", err)
	}
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no file", path)
	}
	if ours(path) {
		return nil, fmt.Errorf("%s is in the data folder of a Godwit, whose files no source may read", path)
	}
	db, err := lite.OpenConn(path, lite.OpenReadWrite) // neither made nor changed to a write-ahead log
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	db.SetBusyTimeout(answerWithin)
	c := &sqliteConn{Conn: db}
	// The file's schema is another's: it must not call functions with effects.
	if err := c.query(ctx, "PRAGMA trusted_schema = OFF", nil, nil); err != nil {
		c.close()
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	return c, nil
}

func (c *sqliteConn) columns(ctx context.Context, table string) ([]column, error) {
	var list []column
	schema, name, _ := strings.Cut(table, ".")
	if name == "" {
		schema, name = quoted("main"), schema
	}
	err := c.query(ctx, "PRAGMA "+schema+".table_info("+name+")", nil, func(values [][]byte) bool {
		kind := strings.ToUpper(string(values[2]))
		one := column{name: string(values[1]), bad: kind == "BLOB"}
		if strings.Contains(kind, "INT") {
			one.id = integers
		}
		list = append(list, one)
		return true
	})
	if err == nil && len(list) == 0 {
		err = errors.New("no such table")
	}
	return list, err
}

func (c *sqliteConn) query(ctx context.Context, sql string, args []arg, each func([][]byte) bool) error {
	defer c.SetInterrupt(c.SetInterrupt(ctx.Done()))
	s, _, err := c.PrepareTransient(sql)
	if err != nil {
		return err
	}
	defer func() { _ = s.Finalize() }()
	for i := range args {
		switch v := args[i].value().(type) {
		case int64:
			s.BindInt64(i+1, v)
		case string:
			s.BindText(i+1, v)
		default:
			s.BindText(i+1, args[i].text)
		}
	}
	values := make([][]byte, s.ColumnCount())
	for {
		more, err := s.Step()
		if err != nil || !more || each == nil {
			return err
		}
		for i := range values {
			values[i] = nil
			if s.ColumnType(i) != lite.TypeNull {
				values[i] = []byte(s.ColumnText(i))
			}
		}
		if !each(values) {
			return nil
		}
	}
}

// begin takes the lock of writers at once, so that the transaction cannot find later that another has written meanwhile.
func (c *sqliteConn) begin(ctx context.Context) error {
	err := c.query(ctx, "BEGIN IMMEDIATE", nil, nil)
	c.open = err == nil
	return err
}

func (c *sqliteConn) commit(ctx context.Context) error {
	err := c.query(ctx, "COMMIT", nil, nil)
	c.open = c.open && err != nil
	return err
}

func (c *sqliteConn) rollback() {
	if c.open {
		c.open = false
		_ = sqlitex.ExecuteTransient(c.Conn, "ROLLBACK", nil) // the end of the connection has the same effect
	}
}

func (*sqliteConn) wait(ctx context.Context, most time.Duration) (bool, error) {
	return false, rest(ctx, most)
}

func (c *sqliteConn) close() { _ = c.Close() } // all was committed, or is read again
