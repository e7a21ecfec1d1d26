// Package tracedb stores which notifications are traced, in an SQLite file of its own that exists only while tracing is on. Losing it does
// no harm: it is not synced, has no checksums and is in no backup.
package tracedb

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"godwit.dev/godwit/internal/server/tracing"
)

const schema = `
CREATE TABLE IF NOT EXISTS trace (
  app TEXT NOT NULL, recipient TEXT NOT NULL, id TEXT NOT NULL,
  parent TEXT NOT NULL, state TEXT NOT NULL, until INTEGER NOT NULL,
  PRIMARY KEY (app, recipient, id)
) WITHOUT ROWID;
`

// Store is a tracing.Keeper.
type Store struct {
	mu   sync.Mutex
	conn *sqlite.Conn
}

var _ tracing.Keeper = (*Store)(nil)

// Open opens or creates the file. It replaces an unreadable file by an empty one.
func Open(path string) (*Store, error) {
	s, err := open(path)
	if err == nil {
		return s, nil
	}
	for _, part := range []string{"", "-wal", "-shm"} {
		if gone := os.Remove(path + part); gone != nil && !errors.Is(gone, os.ErrNotExist) {
			return nil, errors.Join(err, gone)
		}
	}
	return open(path)
}

func open(path string) (*Store, error) {
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite, sqlite.OpenCreate, sqlite.OpenWAL)
	if err != nil {
		return nil, fmt.Errorf("open what traces follow: %w", err)
	}
	err = sqlitex.ExecuteTransient(conn, "PRAGMA synchronous = OFF", nil)
	if err == nil {
		err = sqlitex.ExecuteScript(conn, schema, nil)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open what traces follow: %w", err), conn.Close())
	}
	s := &Store{conn: conn}
	if _, err := s.Load(context.Background()); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return s, nil
}

// Close implements tracing.Keeper.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conn.Close()
}

// Load implements tracing.Keeper.
func (s *Store) Load(ctx context.Context) (list []tracing.Kept, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.during(ctx)()
	err = sqlitex.Execute(s.conn, "SELECT app, recipient, id, parent, state, until FROM trace", &sqlitex.ExecOptions{
		ResultFunc: func(st *sqlite.Stmt) error {
			list = append(list, tracing.Kept{
				Copy:   tracing.Copy{App: st.ColumnText(0), Recipient: st.ColumnText(1), ID: st.ColumnText(2)},
				Parent: st.ColumnText(3), State: st.ColumnText(4), Until: time.UnixMilli(st.ColumnInt64(5)),
			})
			return nil
		},
	})
	if err != nil {
		return nil, fmt.Errorf("read what traces follow: %w", err)
	}
	return list, nil
}

// Save implements tracing.Keeper.
func (s *Store) Save(ctx context.Context, add []tracing.Kept, drop []tracing.Copy) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.during(ctx)()
	end, err := sqlitex.ImmediateTransaction(s.conn)
	if err != nil {
		return fmt.Errorf("save what traces follow: %w", err)
	}
	defer end(&err)
	for i := range add {
		k := &add[i]
		if err := sqlitex.Execute(s.conn, "INSERT OR REPLACE INTO trace VALUES (?, ?, ?, ?, ?, ?)", &sqlitex.ExecOptions{
			Args: []any{k.App, k.Recipient, k.ID, k.Parent, k.State, k.Until.UnixMilli()},
		}); err != nil {
			return fmt.Errorf("save what traces follow: %w", err)
		}
	}
	for _, c := range drop {
		if err := sqlitex.Execute(s.conn, "DELETE FROM trace WHERE app = ? AND recipient = ? AND id = ?", &sqlitex.ExecOptions{Args: []any{c.App, c.Recipient, c.ID}}); err != nil {
			return fmt.Errorf("save what traces follow: %w", err)
		}
	}
	return nil
}

// during interrupts the connection's call when ctx ends; the returned function stops that.
func (s *Store) during(ctx context.Context) func() {
	s.conn.SetInterrupt(ctx.Done())
	return func() { s.conn.SetInterrupt(nil) }
}
