package sqlitedb

import (
	"context"
	"fmt"
	"sync"
	"time"

	"zombiezen.com/go/sqlite"
)

// How often the log is copied into the file. The interval is short, so that little is left to copy when the disk fills up: a full disk can
// then still store settles, which rewrite pages in place. While little is written the interval is longer: each copy takes three syncs, for
// which commits wait, and a page that is rewritten again and again is copied only once.
const (
	checkpointEvery = 250 * time.Millisecond
	littleWritten   = 1 << 20
	littleEvery     = time.Second
)

// checkpointer copies the log into the file on its own connection, so that the writer does not have to.
type checkpointer struct {
	db   *DB
	conn *sqlite.Conn
	stop chan struct{}
	wg   sync.WaitGroup
}

func newCheckpointer(db *DB) (*checkpointer, error) {
	conn, err := db.connect(writeCache)
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
	for last := time.Now(); ; {
		select {
		case <-k.stop:
			return
		case <-k.db.w.copyNow:
		case <-tick.C:
		}
		if n := k.db.w.uncopied.Load(); n > littleWritten || n > 0 && time.Since(last) >= littleEvery {
			k.pass()
			last = time.Now()
		}
	}
}

func (k *checkpointer) pass() {
	logBytes, err := k.db.w.copyLog(k.conn, "PASSIVE")
	if err = k.db.w.judge(err); err != nil && k.db.w.complain() {
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

// copyLog runs a checkpoint and returns how many bytes the log holds afterwards, copied or not.
func (w *writer) copyLog(conn *sqlite.Conn, mode string) (logBytes int64, err error) {
	written := w.uncopied.Load()
	log, err := w.db.file.Log()
	if err != nil {
		return 0, fmt.Errorf("checkpoint (%s): %w", mode, err)
	}
	busy := false
	var frames, copied int64
	err = Each(conn, "PRAGMA wal_checkpoint("+mode+")", nil, func(s *sqlite.Stmt) error {
		busy, frames, copied = s.ColumnBool(0), max(s.ColumnInt64(1), 0), s.ColumnInt64(2)
		return nil
	})
	if err == nil && copied == frames {
		w.uncopied.Add(-written)
		err = w.db.file.Copied(log, copied)
	}
	if err == nil && busy && mode != "PASSIVE" {
		err = sqlite.ResultBusy.ToError()
	}
	logBytes = frames * int64(w.db.opts.PageSize)
	if err != nil {
		return logBytes, fmt.Errorf("checkpoint (%s): %w", mode, err)
	}
	return logBytes, nil
}

// wrote counts the bytes that a commit has added to the log, and triggers an early copy if there are many.
func (w *writer) wrote(bytes int64) {
	if w.uncopied.Add(bytes+1) > w.db.opts.CopyAfter {
		select {
		case w.copyNow <- struct{}{}:
		default:
		}
	}
}

// complainEvery is the least interval between log messages about the same trouble with the log.
const complainEvery = 10 * time.Second

func (w *writer) complain() bool {
	now, last := time.Now().UnixNano(), w.complained.Load()
	return now-last > int64(complainEvery) && w.complained.CompareAndSwap(last, now)
}

// Uncopied returns about how many bytes of the log are not in the file yet, and so by how much the file may grow.
func (db *DB) Uncopied() int64 { return db.w.uncopied.Load() }

// FreeInside returns how many bytes inside the file can be reused.
func (db *DB) FreeInside(ctx context.Context) (bytes int64, err error) {
	err = db.Read(ctx, func(c *sqlite.Conn) error {
		pages, err := queryInt(c, "PRAGMA freelist_count")
		bytes = pages * int64(db.opts.PageSize)
		return err
	})
	return bytes, err
}

// CopyLog copies the log into the file between commits. It is only for hooks, when space is scarce and little may be left uncopied.
func (db *DB) CopyLog() {
	_, err := db.w.copyLog(db.w.conn, "PASSIVE")
	_ = db.w.judge(err)
}

// How long the writer waits for readers to leave the log, so that the log can be restarted. Below the cap it hardly waits. Beyond the cap
// it waits so long that the log grows slower than a reader of it, such as a backup, can read.
const (
	restartWait    = 20 * time.Millisecond
	restartWaitCap = time.Second
)

// restartLog makes the next commit restart the log. The checkpointer has copied nearly all of the log before, so this takes a few
// milliseconds.
func (w *writer) restartLog(logBytes int64) {
	wait := restartWait
	if logBytes > w.db.opts.WALCap {
		wait = restartWaitCap
	}
	w.conn.SetBusyTimeout(wait)
	defer w.conn.SetBusyTimeout(w.db.opts.BusyTimeout)
	_, err := w.copyLog(w.conn, "RESTART")
	if err = w.judge(err); err != nil && logBytes > w.db.opts.WALCap && w.complain() {
		w.db.opts.Log.Warn("the log is above its cap and in use", "path", w.db.path, "bytes", logBytes, "error", err)
	}
}

// Reclaim copies the whole log into the file and restarts it, between commits. It is only for hooks, when the disk is full: the log's space
// can then be reused. It waits up to restartWaitCap for readers: without the log's space even acknowledgements fail.
func (db *DB) Reclaim() {
	db.w.conn.SetBusyTimeout(restartWaitCap)
	defer db.w.conn.SetBusyTimeout(db.opts.BusyTimeout)
	_, err := db.w.copyLog(db.w.conn, "RESTART")
	if err = db.w.judge(err); err != nil && db.w.complain() {
		db.opts.Log.Warn("the log could not be restarted", "path", db.path, "error", err)
	}
}
