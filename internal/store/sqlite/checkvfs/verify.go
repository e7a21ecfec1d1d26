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

// How often and how long a page that does not fit its checksum is read again: it may be being written.
const (
	verifyTries = 5
	verifyPause = 50 * time.Millisecond
)

// Verify reads the whole database, also while a server writes to it, and returns what is damaged. progress, if not nil, is told
// now and then how many bytes were read.
func (f *File) Verify(ctx context.Context, progress func(done, total int64)) (damage []error, err error) {
	size := f.pageSize.Load()
	info, err := os.Stat(f.path)
	if err != nil || size == 0 {
		return nil, err
	}
	var suspect []int64
	err = eachPage(f.path, size, func(page int64, b []byte) error {
		if sum, ok, err := f.entry(page); err != nil || ok && sum != crc32.Checksum(b, castagnoli) {
			suspect = append(suspect, page)
		}
		if progress != nil && page%4096 == 0 {
			progress(page*size, info.Size())
		}
		return context.Cause(ctx)
	})
	if err != nil {
		return nil, err
	}
	for _, page := range suspect {
		bad, err := f.stillBad(page)
		if err != nil {
			return damage, err
		}
		if bad != nil {
			damage = append(damage, bad)
		}
	}
	return damage, nil
}

// stillBad looks again at a page that may have been in the middle of being written. What lies in the log is read from there.
func (f *File) stillBad(page int64) (bad, err error) {
	b := make([]byte, f.pageSize.Load())
	file, err := os.Open(f.path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	for range verifyTries {
		if f.inLog(page) {
			return nil, nil
		}
		if _, err := file.ReadAt(b, (page-1)*int64(len(b))); err != nil {
			return nil, nil //nolint:nilerr // the file has shrunk meanwhile
		}
		sum, ok, err := f.entry(page)
		if err == nil && (!ok || sum == crc32.Checksum(b, castagnoli)) {
			return nil, nil
		}
		bad = err
		if bad == nil {
			bad = &DamageError{Path: f.path, What: fmt.Sprintf("page %d is not what was written", page)}
		}
		time.Sleep(verifyPause)
	}
	return bad, nil
}

func (f *File) inLog(page int64) bool {
	l, err := walfile.Read(f.path + logSuffix)
	if err != nil || l == nil {
		return false
	}
	for _, fr := range l.Frames {
		if int64(fr.Page) == page {
			return true
		}
	}
	return false
}
