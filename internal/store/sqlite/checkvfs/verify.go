package checkvfs

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"time"

	"golang.org/x/time/rate"

	"godwit.dev/godwit/internal/store/sqlite/walfile"
)

// eachPage reads a database page by page.
func eachPage(path string, size int64, visit func(page int64, b []byte) error) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	r := bufio.NewReaderSize(file, 1<<20)
	b := make([]byte, size)
	for page := int64(1); ; page++ {
		switch _, err := io.ReadFull(r, b); {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, io.ErrUnexpectedEOF):
			return &DamageError{Path: path, What: fmt.Sprintf("page %d is cut off", page)}
		case err != nil:
			return err
		}
		if err := visit(page, b); err != nil {
			return err
		}
	}
}

// How often, and at which interval, mismatching pages are read again: they may be half written.
const (
	verifyTries = 5
	verifyPause = 50 * time.Millisecond
)

// Damage is the result of Verify.
type Damage struct {
	Errors []error // what is damaged
	Pages  []int64 // numbers of pages that differ from what was written
}

// Verify reads a whole database, also beside a server that writes to it, and reports what is damaged. It must not be called in
// a process that has the database open: closing a file releases all of the process's locks on it. It reads at most pace bytes a
// second; 0: as fast as it can. progress, if not nil, is called now and then with the number of bytes read.
func Verify(ctx context.Context, path string, pace int64, progress func(done, total int64)) (d Damage, err error) {
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		d.Errors = append(d.Errors, &DamageError{Path: path, What: "it is missing"})
		return d, nil
	}
	if err != nil {
		return d, err
	}
	sums, err := os.Open(path + Suffix)
	if errors.Is(err, os.ErrNotExist) {
		d.Errors = append(d.Errors, &DamageError{Path: path, What: "its checksums are missing"})
		return d, nil
	}
	if err != nil {
		return d, err
	}
	f := &File{path: path, sums: sums, shared: true}
	defer func() { _ = f.release() }() // was only read
	if f.note.file, err = os.Open(path + NoteSuffix); err != nil && !errors.Is(err, os.ErrNotExist) {
		return d, err
	}
	size, err := f.look()
	if err != nil {
		d.Errors = append(d.Errors, err)
	}
	if size == 0 {
		return d, nil
	}
	suspect, err := f.compare(ctx, info.Size(), pace, progress)
	var cut *DamageError
	if errors.As(err, &cut) {
		d.Errors, err = append(d.Errors, cut), nil
	}
	for try := 0; err == nil && len(suspect) > 0 && try < verifyTries; try++ {
		if try > 0 {
			time.Sleep(verifyPause)
		}
		suspect, err = f.stillBad(suspect)
	}
	for _, page := range suspect {
		d.Errors = append(d.Errors, &DamageError{Path: path, What: fmt.Sprintf("page %d is not what was written", page)})
	}
	d.Pages = suspect
	return d, err
}

// look checks headers, length and log.
func (f *File) look() (size int64, err error) {
	if size, err = pageSize(f.path); err != nil {
		f.pageSize.Store(4096)
		return 4096, err
	}
	f.pageSize.Store(size)
	if err = f.loadMark(); err == nil {
		err = f.lookAtLog()
	}
	return size, f.lookAgain(err)
}

// stretch is how many pages are read between two checks of the pace.
const stretch = 64

func (f *File) compare(ctx context.Context, total, pace int64, progress func(done, total int64)) (suspect []int64, err error) {
	size := f.pageSize.Load()
	limit := rate.NewLimiter(rate.Inf, 0)
	if pace > 0 {
		limit = rate.NewLimiter(rate.Limit(pace)/rate.Limit(size), stretch)
	}
	err = eachPage(f.path, size, func(page int64, b []byte) error {
		if !f.fits(page, b) {
			suspect = append(suspect, page)
		}
		if progress != nil && page%4096 == 0 {
			progress(page*size, total)
		}
		if page%stretch == 0 {
			if err := limit.WaitN(ctx, stretch); err != nil {
				return errors.Join(context.Cause(ctx), err)
			}
		}
		return context.Cause(ctx)
	})
	return suspect, err
}

func (f *File) fits(page int64, b []byte) bool {
	sum, ok, err := f.entry(page)
	if err == nil && !ok {
		return !written(b)
	}
	return err == nil && sum == crc32.Checksum(b, castagnoli)
}

// stillBad reads pages again that may have been in the middle of a write. It reads pages in the log from the log.
func (f *File) stillBad(pages []int64) (bad []int64, err error) {
	logged := make(map[int64]bool)
	if l, err := walfile.Read(f.path + logSuffix); err == nil && l != nil {
		for _, fr := range l.Frames {
			logged[int64(fr.Page)] = true
		}
	}
	file, err := os.Open(f.path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	b := make([]byte, f.pageSize.Load())
	for _, page := range pages {
		if logged[page] {
			continue
		}
		if _, err := file.ReadAt(b, (page-1)*int64(len(b))); err != nil {
			continue // the file has shrunk meanwhile
		}
		if !f.fits(page, b) {
			bad = append(bad, page)
		}
	}
	return bad, nil
}
