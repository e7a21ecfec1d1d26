package sqlitedb

import (
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// Each runs a query, which stays prepared, and calls fn, which may be nil, with each row.
func Each(c *sqlite.Conn, query string, args []any, fn func(*sqlite.Stmt) error) error {
	return sqlitex.Execute(c, query, &sqlitex.ExecOptions{Args: args, ResultFunc: fn})
}

// EachOnce is Each for a query that is made for one use: it is not kept prepared.
func EachOnce(c *sqlite.Conn, query string, args []any, fn func(*sqlite.Stmt) error) error {
	return sqlitex.ExecuteTransient(c, query, &sqlitex.ExecOptions{Args: args, ResultFunc: fn})
}
