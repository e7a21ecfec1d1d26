package sqlitedb

import (
	"fmt"
	"sync"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// checkpointEvery is how often the log is copied into the file. Often, so that little is left to copy when the disk
// fills up: a full disk can then still take settles, which rewrite pages in place.
const checkpointEvery = 250 * time.Millisecond

// checkpointer copies the log into the file on its own connection, so that the writer need not.
type checkpointer struct {
	db   *DB
	conn *sqlite.Conn
	stop chan struct{}
	wg   sync.WaitGroup
}

func newCheckpointer(db *DB) (*checkpointer, error) {
	conn, err := db.connect(1 << 20)
	if err != nil {
		return nil, err
	}
	k := &checkpointer{db: db, conn: conn, stop: make(chan struct{})}
	k.wg.Go(k.run)
	return k, nil
}

func (k *checkpointer) run() {
	tick := time.NewTicker(checkpointEvery)
	defer tick.Stop()
	var last uint64
	for {
		select {
		case <-k.stop:
			return
		case <-tick.C:
		}
		if n := k.db.w.commits.Load(); n != last {
			last = n
			k.pass()
		}
	}
}

func (k *checkpointer) pass() {
	logBytes, err := checkpoint(k.conn, "PASSIVE", k.db.opts.PageSize)
	switch {
	case isFatal(err):
		_ = k.db.w.die(err)
	case err != nil:
		k.db.opts.Log.Warn("checkpoint failed", "path", k.db.path, "error", err)
	}
	if logBytes > k.db.opts.WALRestart {
		k.db.w.restart.Store(logBytes)
		k.db.w.notify()
	}
}

func (k *checkpointer) close() {
	close(k.stop)
	k.wg.Wait()
	if err := k.conn.Close(); err != nil {
		k.db.opts.Log.Warn("close checkpoint connection", "path", k.db.path, "error", err)
	}
}

// checkpoint runs one and returns how many bytes the log holds afterwards, copied or not.
func checkpoint(conn *sqlite.Conn, mode string, pageSize int) (logBytes int64, err error) {
	busy := false
	err = sqlitex.Execute(conn, "PRAGMA wal_checkpoint("+mode+")", &sqlitex.ExecOptions{ResultFunc: func(s *sqlite.Stmt) error {
		busy = s.ColumnBool(0)
		logBytes = max(s.ColumnInt64(1), 0) * int64(pageSize)
		return nil
	}})
	if err == nil && busy && mode != "PASSIVE" {
		err = sqlite.ResultBusy.ToError()
	}
	if err != nil {
		return logBytes, fmt.Errorf("checkpoint (%s): %w", mode, err)
	}
	return logBytes, nil
}

// How long the writer waits for readers to leave the log so that it can be restarted: hardly at all below the cap,
// and beyond it long enough that the log grows slower than it can be read by whoever holds it (a backup, say).
const (
	restartWait    = 20 * time.Millisecond
	restartWaitCap = time.Second
)

// restartLog makes the next commit begin the log anew. The checkpointer has copied nearly all of it before, so this
// takes a few milliseconds.
func (w *writer) restartLog(logBytes int64) {
	wait := restartWait
	if logBytes > w.db.opts.WALCap {
		wait = restartWaitCap
	}
	w.conn.SetBusyTimeout(wait)
	defer w.conn.SetBusyTimeout(w.db.opts.BusyTimeout)
	_, err := checkpoint(w.conn, "RESTART", w.db.opts.PageSize)
	switch {
	case isFatal(err):
		_ = w.die(err)
	case err != nil && logBytes > w.db.opts.WALCap:
		w.db.opts.Log.Warn("the log is above its cap and in use", "path", w.db.path, "bytes", logBytes, "error", err)
	}
}

// Reclaim copies the whole log into the file and begins it anew, on the writer's goroutine. Only for hooks, when
// the disk is full: the log's space can then be used again.
func (db *DB) Reclaim() {
	if _, err := checkpoint(db.w.conn, "RESTART", db.opts.PageSize); err != nil {
		if isFatal(err) {
			_ = db.w.die(err)
			return
		}
		db.opts.Log.Warn("the log could not be restarted", "path", db.path, "error", err)
	}
}
