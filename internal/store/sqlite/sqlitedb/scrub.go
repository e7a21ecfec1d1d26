package sqlitedb

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"zombiezen.com/go/sqlite"
)

const (
	// scrubPages is how many pages one commit overwrites: a quarter of a megabyte, so that other commits do not wait long.
	scrubPages = 64
	// logTries and logPause bound how long Scrub waits for readers to leave the log.
	logTries = 100
	logPause = 100 * time.Millisecond
)

// Scrub overwrites deleted data: the file's free pages, in slices as background work, and the log. Within used pages, deleting overwrites
// immediately: see connect. The next call completes an interrupted one.
func (db *DB) Scrub(ctx context.Context) error {
	if err := db.fillFree(ctx); err != nil {
		return fmt.Errorf("overwrite free pages of %s: %w", db.path, err)
	}
	if err := db.emptyLog(ctx); err != nil {
		return fmt.Errorf("empty the log of %s: %w", db.path, err)
	}
	return nil
}

// fillFree fills all free pages with the zeros of a table, and drops the table.
func (db *DB) fillFree(ctx context.Context) error {
	err := db.DoBulk(ctx, 1, func(c *sqlite.Conn) error {
		return Each(c, "CREATE TABLE IF NOT EXISTS scrub (zeros BLOB)", nil, nil)
	})
	for more := true; more && err == nil; {
		err = db.DoBulk(ctx, scrubPages, func(c *sqlite.Conn) error {
			free, err := queryInt(c, "PRAGMA freelist_count")
			if more = free > 0; err != nil || !more {
				return err
			}
			return Each(c, "INSERT INTO scrub VALUES (zeroblob(?))", []any{zeros(db.opts.PageSize, min(int(free), scrubPages))}, nil)
		})
	}
	for more := true; more && err == nil; {
		err = db.DoBulk(ctx, scrubPages, func(c *sqlite.Conn) error {
			more = false
			return Each(c, "DELETE FROM scrub WHERE rowid IN (SELECT rowid FROM scrub LIMIT 1) RETURNING rowid", nil, func(*sqlite.Stmt) error {
				more = true
				return nil
			})
		})
	}
	if err != nil {
		return err
	}
	return db.DoBulk(ctx, 1, func(c *sqlite.Conn) error { return Each(c, "DROP TABLE scrub", nil, nil) })
}

// zeros returns the length of a blob that fills a number of pages besides a part of its row's own page
// (https://sqlite.org/fileformat2.html#b_tree_pages): a partly filled page would keep its old data in the rest.
func zeros(page, pages int) int {
	payload := (page-12)*32/255 - 23 + pages*(page-4)
	header := 3 // bytes of the record's header: its own length, and the blob's in two bytes or more
	if payload >= 1<<13 {
		header++
	}
	return payload - header
}

// errLogInUse reports that a reader is using the log.
var errLogInUse = errors.New("the log is in use")

// emptyLog copies the log into the file, restarts it once no reader needs it, and overwrites the bytes after the new beginning. The log
// file keeps its length, since a truncated log counts as damaged.
func (db *DB) emptyLog(ctx context.Context) error {
	for try := 0; ; try++ {
		err := db.w.beginLog()
		if err == nil {
			break
		}
		if !errors.Is(err, errLogInUse) || try == logTries {
			return db.w.judge(err)
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, context.Cause(ctx))
		case <-time.After(logPause):
		}
	}
	// The next commit is the first of the new log. This one makes sure that there is one.
	err := db.DoBulk(ctx, 1, func(c *sqlite.Conn) error {
		return errors.Join(Each(c, "CREATE TABLE scrub (zeros BLOB)", nil, nil), Each(c, "DROP TABLE scrub", nil, nil))
	})
	if err != nil {
		return err
	}
	db.w.turn.Lock()
	defer db.w.turn.Unlock()
	return db.w.judge(db.w.overwriteLog())
}

// beginLog makes the next commit restart the log.
func (w *writer) beginLog() error {
	w.turn.Lock()
	defer w.turn.Unlock()
	w.conn.SetBusyTimeout(restartWait)
	defer w.conn.SetBusyTimeout(w.db.opts.BusyTimeout)
	_, err := w.copyLog(w.conn, "RESTART")
	if sqlite.ErrCode(err).ToPrimary() == sqlite.ResultBusy {
		return errLogInUse
	}
	return err
}

// Parts of a log (https://sqlite.org/fileformat2.html#wal_format).
const (
	logHeader   = 32
	frameHeader = 24
	logSalt     = 16 // offset of the eight header bytes that each frame of this log repeats
	frameSalt   = 8
)

// overwriteLog overwrites the remains of earlier logs with zeros. Meanwhile nothing may write to the log, in this process or another.
func (w *writer) overwriteLog() (err error) {
	if err := step(w.conn, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, step(w.conn, "ROLLBACK")) }()
	f, err := os.OpenFile(w.db.path+"-wal", os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("open the log: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("look at the log: %w", err)
	}
	at, err := endOfLog(f, int64(w.db.opts.PageSize))
	if err != nil {
		return fmt.Errorf("read the log: %w", err)
	}
	zeros := make([]byte, 1<<20)
	for ; at < info.Size(); at += int64(len(zeros)) {
		if _, err := f.WriteAt(zeros[:min(int64(len(zeros)), info.Size()-at)], at); err != nil {
			return fmt.Errorf("overwrite former logs: %w", err)
		}
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("overwrite former logs: %w", err)
	}
	return nil
}

// endOfLog finds where the frames of a log end.
func endOfLog(f io.ReaderAt, page int64) (at int64, err error) {
	var head [logHeader]byte
	if _, err := f.ReadAt(head[:], 0); err != nil {
		return 0, err // says itself what was read
	}
	salt := head[logSalt : logSalt+8]
	var frame [frameHeader]byte
	for at = logHeader; ; at += frameHeader + page {
		_, err := f.ReadAt(frame[:], at)
		if errors.Is(err, io.EOF) || err == nil && !bytes.Equal(frame[frameSalt:frameSalt+8], salt) {
			return at, nil
		}
		if err != nil {
			return 0, err
		}
	}
}
