package sqlitedb

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/store/sqlite/checkvfs"
)

// backupPages is how many pages are copied in one step of a few milliseconds, during which a running server's log cannot be restarted.
const backupPages = 2048

// Backup makes a consistent copy of the database src in the new file dst, also while a server writes to src. dst appears only when it is
// complete and on disk. checked says that src has checksums, so that missing ones are damage.
func Backup(ctx context.Context, src, dst string, checked bool) error {
	if _, err := os.Stat(src); err != nil {
		return fmt.Errorf("back up database: %w", err)
	}
	if _, err := os.Stat(dst); err == nil {
		return fmt.Errorf("back up database %s: %s exists already", src, dst)
	}
	part := dst + ".part"
	if err := os.Remove(part); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("back up database %s: %w", src, err)
	}
	err := copyDatabase(ctx, src, part, checked)
	if err == nil {
		err = syncFile(part)
	}
	if err == nil {
		err = os.Rename(part, dst)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("back up database %s to %s: %w", src, dst, err), removeIfThere(part))
	}
	return nil
}

func copyDatabase(ctx context.Context, src, dst string, checked bool) (err error) {
	var damage error
	file, err := checkvfs.Open(src, checkvfs.Options{Expected: checked, Shared: true, Damaged: func(err error) { damage = err }})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close(), damage) }()
	vfs, err := checkvfs.On("")
	if err != nil {
		return err
	}
	from, err := sqlite.OpenConn(fileURI(src, vfs), sqlite.OpenReadWrite, sqlite.OpenURI)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	// One read transaction from start to end: pages written meanwhile go to the log and stay invisible, so the copy is of one moment and
	// never starts over.
	if err := step(from, "BEGIN"); err != nil {
		return err
	}
	if _, err := queryInt(from, "SELECT count(*) FROM sqlite_schema"); err != nil {
		return err
	}
	to, err := sqlite.OpenConn(fileURI(dst, ""), sqlite.OpenReadWrite, sqlite.OpenCreate, sqlite.OpenURI)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	b, err := sqlite.NewBackup(to, "main", from, "main")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	return copyPages(ctx, b)
}

// copyPages copies all pages, a few at a time, or until ctx ends.
func copyPages(ctx context.Context, b *sqlite.Backup) error {
	for {
		more, err := b.Step(backupPages)
		if err != nil && !more {
			return err
		}
		if !more {
			return nil
		}
		if err != nil {
			time.Sleep(10 * time.Millisecond) // locked by another process for a moment
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

func syncFile(path string) (err error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return f.Sync()
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
