package appsql

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/store/sqltx"
)

// Table stores settings of one kind: each row belongs to an app and has a name there.
type Table[T any] struct {
	db        DB
	one, many string // in words, for errors
	table     string
	columns   []string // app, name and the others
	empty     func(app, name string) T
	read      func(sqltx.Row) (T, error)
	write     func(*T) ([]any, error)                              // the columns after the name
	quiet     bool                                                 // nobody watches it
	changed   func(ctx context.Context, tx sqltx.Tx, one *T) error // writes what else a change needs, in its transaction; nil: nothing
}

// All reads all rows.
func (t *Table[T]) All(ctx context.Context) (list []T, err error) {
	err = t.db.Read(ctx, "read "+t.many, func(ctx context.Context, tx sqltx.Tx) (err error) {
		list, err = sqltx.Collect(ctx, tx, t.read, t.selects())
		return err
	})
	return list, err
}

func (t *Table[T]) selects() string {
	return "SELECT " + strings.Join(t.columns, ", ") + " FROM " + t.table
}

// named returns a condition on the app and the name.
func (t *Table[T]) named(compare string) string {
	return " WHERE app = $1 AND " + t.columns[1] + " " + compare + " $2"
}

// upsert returns the statement that inserts or updates a row.
func (t *Table[T]) upsert() string {
	places, news := make([]string, len(t.columns)), make([]string, len(t.columns))
	for i, column := range t.columns {
		places[i], news[i] = "$"+strconv.Itoa(i+1), column+" = excluded."+column
	}
	return fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s) ON CONFLICT (app, %s) DO UPDATE SET %s",
		t.table, strings.Join(t.columns, ", "), strings.Join(places, ", "), t.columns[1], strings.Join(news[2:], ", "))
}

// Find reads an app's row of a name; nil: there is none.
func (t *Table[T]) Find(ctx context.Context, app, name string) (one *T, err error) {
	err = t.db.Read(ctx, "read "+t.one+" "+name, func(ctx context.Context, tx sqltx.Tx) (err error) {
		one, err = t.find(ctx, tx, app, name)
		return err
	})
	return one, err
}

// Page reads up to limit rows of an app in the order of names, beginning after a name.
func (t *Table[T]) Page(ctx context.Context, app, after string, limit int) (list []T, err error) {
	err = t.db.Read(ctx, "read "+t.many, func(ctx context.Context, tx sqltx.Tx) (err error) {
		list, err = sqltx.Collect(ctx, tx, t.read, t.selects()+t.named(">")+" ORDER BY "+t.columns[1]+" LIMIT $3", app, after, limit)
		return err
	})
	return list, err
}

// find reads a row; nil: there is none.
func (t *Table[T]) find(ctx context.Context, tx sqltx.Tx, app, name string) (*T, error) {
	found, err := sqltx.Collect(ctx, tx, t.read, t.selects()+t.named("="), app, name)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return &found[0], nil
}

// Update reads a row, or makes an empty one, lets change alter it, and writes it, all in one transaction. It fails with
// access.ErrUnknownApp if the app does not exist. others is the number of the app's other rows.
func (t *Table[T]) Update(ctx context.Context, app, name string, change func(one *T, others int) error) error {
	return t.db.Change(ctx, "change "+t.one+" "+name, func(ctx context.Context, tx sqltx.Tx) (bool, error) {
		if err := lockApp(ctx, tx, app); err != nil {
			return false, err
		}
		others, err := sqltx.Collect(ctx, tx, sqltx.One[int], "SELECT count(*) FROM "+t.table+t.named("<>"), app, name)
		if err != nil {
			return false, err
		}
		one, err := t.find(ctx, tx, app, name)
		if err != nil {
			return false, err
		}
		if one == nil {
			made := t.empty(app, name)
			one = &made
		}
		if err := change(one, others[0]); err != nil {
			return false, err
		}
		values, err := t.write(one)
		if err != nil {
			return false, err
		}
		_, err = tx.Exec(ctx, t.upsert(), append([]any{app, name}, values...)...)
		if err == nil && t.changed != nil {
			err = t.changed(ctx, tx, one)
		}
		return !t.quiet, err
	})
}

// Delete deletes a row, and reports whether there was one. If check fails, it does nothing.
func (t *Table[T]) Delete(ctx context.Context, app, name string, check func(one *T) error) (found bool, err error) {
	err = t.db.Change(ctx, "delete "+t.one+" "+name, func(ctx context.Context, tx sqltx.Tx) (bool, error) {
		found = false
		if err := lockApp(ctx, tx, app); errors.Is(err, access.ErrUnknownApp) {
			return false, nil
		} else if err != nil {
			return false, err
		}
		one, err := t.find(ctx, tx, app, name)
		if err == nil && one != nil {
			err = check(one)
		}
		if err != nil || one == nil {
			return false, err
		}
		n, err := t.delete(ctx, tx, app, name)
		found = n > 0
		return found, err
	})
	return found, err
}

func (t *Table[T]) delete(ctx context.Context, tx sqltx.Tx, app, name string) (int, error) {
	return tx.Exec(ctx, "DELETE FROM "+t.table+t.named("="), app, name)
}

// Watch calls changed within a second of each commit of a change of any settings, by any server, until ctx ends.
func (t *Table[T]) Watch(ctx context.Context, changed func()) error { return t.db.Watch(ctx, changed) }
