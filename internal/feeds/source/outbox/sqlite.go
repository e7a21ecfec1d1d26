package outbox

import (
	"context"
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
	label: "SQLite", about: "a SQLite file on the server's machine", finding: "poll", none: "1 = 0", quote: quoted,
	param: func(int) string { return "?" },
	// A BLOB is none, since it would not be found by its text.
	text: func(expression string) string {
		return "CASE typeof(" + expression + ") WHEN 'blob' THEN NULL ELSE CAST(" + expression + " AS TEXT) END"
	},
	cut: func(expression string) string {
		return fmt.Sprintf("substr(CAST(%s AS BLOB), 1, %d)", expression, maxBody+1)
	}, // a text would end at a NUL
	age: func(expression string) string { return "(julianday('now') - julianday(" + expression + ")) * 86400" },
}

// sqliteConn is a connection to a SQLite file.
type sqliteConn struct {
	*lite.Conn
	path string      // as the source has it
	file os.FileInfo // that is open
	open bool        // a transaction is
}

// openSQLite opens an existing file. A key for the API alone must not find out which files there are.
func openSQLite(ctx context.Context, t *source.Target, ours func(path string) bool) (conn, error) {
	if !t.Targets.Everything() {
		return nil, own("a SQLite file is read only if the source was set with godwit source add on the server's data folder, or the server allows private addresses")
	}
	c := &sqliteConn{path: t.Values.Text(FieldPath)}
	path, err := filepath.EvalSymlinks(c.path)
	if err != nil {
		return nil, fmt.Errorf("open the SQLite file: %w", err)
	}
	if c.file, err = os.Stat(path); err != nil || !c.file.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no file", path)
	}
	if ours(path) {
		return nil, fmt.Errorf("%s is in the data folder of a Godwit, whose files no source may read", path)
	}
	if c.Conn, err = lite.OpenConn(path, lite.OpenReadWrite); err != nil { // neither made nor changed to a write-ahead log
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	// The file's schema is another's: it must not call functions with effects.
	if err := c.query(ctx, "PRAGMA trusted_schema = OFF", nil, nil); err != nil {
		c.close()
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	return c, nil
}

func (c *sqliteConn) columns(ctx context.Context, t *table) (list []column, err error) {
	err = c.query(ctx, "SELECT name, upper(type) FROM pragma_table_info(?, ?)", schemaAndName(t), func(values [][]byte) bool {
		kind := string(values[1])
		one := column{name: string(values[0]), bad: kind == "BLOB", time: true}
		switch {
		case strings.Contains(kind, "INT"):
			one.id = integers
		case kind == "":
			one.id = unfit
		}
		list = append(list, one)
		return true
	})
	if err == nil && len(list) == 0 {
		err = own("no such table")
	}
	return list, err
}

// schemaAndName are the parameters of functions that tell of a table.
func schemaAndName(t *table) []arg {
	schema, name, found := strings.Cut(t.name, ".")
	if !found {
		schema, name = "main", schema
	}
	return []arg{{text: name}, {text: schema}}
}

// indexes returns the indexes, and the table itself as that of its rowid, if it has one.
func (c *sqliteConn) indexes(ctx context.Context, t *table) (list []index, err error) {
	const text = `SELECT c.name, (SELECT count(*) FROM pragma_index_info(l.name, ?2)) = 1, l."unique", iif(l.partial, m.sql, ''), 0 FROM pragma_index_list(?1, ?2) l
JOIN pragma_index_info(l.name, ?2) c ON c.seqno = 0 LEFT JOIN %[1]s m ON m.name = l.name
UNION ALL SELECT i.name, (SELECT count(*) FROM pragma_table_info(?1, ?2) WHERE pk) = 1, i.type LIKE 'INTEGER', '', i.type LIKE 'INTEGER' AND m.sql NOT LIKE '%%AUTOINCREMENT%%'
FROM pragma_table_info(?1, ?2) i JOIN %[1]s m ON m.name LIKE ?1 AND m.type = 'table' WHERE i.pk = 1`
	args := schemaAndName(t)
	err = c.query(ctx, fmt.Sprintf(text, quoted(args[1].text)+".sqlite_master"), args, func(values [][]byte) bool {
		list = append(list, index{first: strings.ToLower(string(values[0])), alone: string(values[1]) == "1", unique: string(values[2]) == "1", partial: string(values[3]), again: string(values[4]) == "1"})
		return true
	})
	return list, err
}

func (c *sqliteConn) query(ctx context.Context, sql string, args []arg, each func([][]byte) bool) error {
	ctx, cancel := context.WithTimeout(ctx, answerWithin) // also for a lock that another has
	defer cancel()
	defer c.SetInterrupt(c.SetInterrupt(ctx.Done()))
	s, err := c.Prepare(sql)
	if err != nil {
		return err
	}
	defer func() { _ = s.Reset() }()
	for i := range args {
		bind(s, i+1, &args[i])
	}
	values := make([][]byte, s.ColumnCount())
	for {
		more, err := s.Step()
		if err != nil || !more {
			return err
		}
		for i := range values {
			values[i] = valueOf(s, i)
		}
		if !each(values) {
			return nil
		}
	}
}

func bind(s *lite.Stmt, at int, a *arg) {
	n, number := a.value().(int64)
	switch {
	case number:
		s.BindInt64(at, n)
	case a.is == nothing:
		s.BindNull(at)
	case a.is == octets:
		s.BindBytes(at, []byte(a.text))
	default:
		s.BindText(at, a.text)
	}
}

// valueOf returns a value as bytes; nil: it is NULL.
func valueOf(s *lite.Stmt, at int) []byte {
	if s.ColumnType(at) == lite.TypeNull {
		return nil
	}
	value := make([]byte, s.ColumnLen(at))
	s.ColumnBytes(at, value)
	return value
}

func (c *sqliteConn) exec(ctx context.Context, sql string, args []arg) (int64, error) {
	err := c.query(ctx, sql, args, func([][]byte) bool { return true })
	return int64(c.Changes()), err
}

// begin takes the lock of writers at once, which ends with its process, so that the transaction cannot find later that another has written meanwhile.
func (c *sqliteConn) begin(ctx context.Context) (sole bool, err error) {
	err = c.query(ctx, "BEGIN IMMEDIATE", nil, nil)
	c.open = err == nil
	return c.open, err
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

// wait also notices that the path leads to another file, as after a restore or a deployment: what is written there would not be found.
func (c *sqliteConn) wait(ctx context.Context, most time.Duration) (bool, error) {
	if err := rest(ctx, most); err != nil {
		return false, err
	}
	now, err := os.Stat(c.path)
	if err == nil && !os.SameFile(now, c.file) {
		err = fmt.Errorf("%s is another file than before, and is opened anew", c.path)
	}
	return false, err
}

func (c *sqliteConn) close() { _ = c.Close() } // all was committed, or is read again
