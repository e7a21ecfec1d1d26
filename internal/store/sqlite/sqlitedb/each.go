package sqlitedb

import (
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// Each runs a query, which it keeps prepared, and calls fn, if not nil, for each row.
func Each(c *sqlite.Conn, query string, args []any, fn func(*sqlite.Stmt) error) error {
	return sqlitex.Execute(c, query, &sqlitex.ExecOptions{Args: args, ResultFunc: fn})
}

// EachOnce is Each for a query that is used only once: it does not keep the query prepared.
func EachOnce(c *sqlite.Conn, query string, args []any, fn func(*sqlite.Stmt) error) error {
	return sqlitex.ExecuteTransient(c, query, &sqlitex.ExecOptions{Args: args, ResultFunc: fn})
}
