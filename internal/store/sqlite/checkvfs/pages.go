package checkvfs

import (
	"crypto/rand"
	"errors"
	"fmt"
	"hash/crc32"

	"godwit.dev/godwit/internal/store/sqlite/walfile"
)

// adopt computes the checksums of a database that has none. It writes their header last, as the sign that they are complete.
func (f *File) adopt() error {
	if size := f.pageSize.Load(); size > 0 {
		err := eachPage(f.path, size, func(page int64, b []byte) error { return f.wrotePage(b, (page-1)*size) })
		if err = errors.Join(err, f.syncSums()); err != nil {
			return fmt.Errorf("make checksums: %w", err)
		}
	}
	info, err := f.sums.Stat()
	if err == nil && info.Size() < fileHeader {
		_, err = f.sums.WriteAt([]byte{0}, fileHeader-1) // extends the file to the whole header before its start is written: then a truncated header is damage
	}
	if err != nil {
		return fmt.Errorf("write checksums: %w", err)
	}
	head := make([]byte, markAt+markSize)
	copy(head, fileMagic)
	_, _ = rand.Read(head[lifeAt:][:lifeSize]) // never fails
	encodeMark(head[markAt:], f.mark, 0)
	if _, err := f.sums.WriteAt(head, 0); err != nil {
		return fmt.Errorf("write checksums: %w", err)
	}
	return f.sums.Sync()
}

// checkPage compares a page that was read with its checksum.
func (f *File) checkPage(b []byte, offset int64, short bool) bool {
	size := f.pageSize.Load()
	if size == 0 || int64(len(b)) != size || offset%size != 0 {
		return true // only the header was read; its page is also read as a whole
	}
	page := offset/size + 1
	sum, ok, err := f.entry(page)
	switch {
	case err != nil:
		f.report(err)
		return false
	case !ok && !written(b):
		return true // SQLite skipped this page and never wrote it
	case !ok && !short:
		f.report(&DamageError{Path: f.path + Suffix, What: fmt.Sprintf("it has no checksum of page %d", page)})
		return false
	case !ok:
		return true
	case short:
		f.report(&DamageError{Path: f.path, What: fmt.Sprintf("it ends before page %d", page)})
		return false
	case crc32.Checksum(b, castagnoli) != sum:
		f.report(&DamageError{Path: f.path, What: fmt.Sprintf("page %d is not what was written", page)})
		return false
	}
	return true
}

// written reports whether a page contains anything but zeros.
func written(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return true
		}
	}
	return false
}

// wrotePage records the checksum of a written page.
func (f *File) wrotePage(b []byte, offset int64) error {
	if offset == 0 && len(b) >= walfile.MinPage {
		f.pageSize.Store(int64(len(b)))
	}
	size := f.pageSize.Load()
	if int64(len(b)) != size || offset%size != 0 {
		return fmt.Errorf("%d bytes at %d are no page", len(b), offset)
	}
	e := entry{page: offset/size + 1, sum: crc32.Checksum(b, castagnoli)}
	if offset == 0 {
		if _, err := f.sums.WriteAt(b, firstPageAt); err != nil {
			return err
		}
	}
	f.sumsMu.Lock()
	defer f.sumsMu.Unlock()
	if n := len(f.fresh); n > 0 && (f.fresh[n-1].page >= e.page || n == maxFresh) {
		if err := f.flush(); err != nil {
			return err
		}
	}
	f.fresh = append(f.fresh, e)
	if f.shared {
		// Another process may read the page before it is synced: a checkpoint that a reader keeps from completing syncs nothing. It may
		// also write the page, and this older checksum must not replace its checksum later.
		return f.flush()
	}
	return nil
}

// flush writes the gathered checksums, adjacent ones together; checkpoints write pages in order. Until the pages are synced this process
// compares them with the gathered checksums, so writing the checksums now is early enough.
func (f *File) flush() error {
	var b []byte
	for from := 0; from < len(f.fresh); {
		b = b[:0]
		first := f.fresh[from].page
		for from < len(f.fresh) && f.fresh[from].page == first+int64(len(b)/entrySize) {
			delete(f.cache, (f.fresh[from].page-1)/chunk)
			b = append(b, encodeEntry(f.fresh[from].sum)...)
			from++
		}
		if _, err := f.sums.WriteAt(b, fileHeader+(first-1)*entrySize); err != nil {
			return err
		}
		f.dirty = true
	}
	f.fresh = f.fresh[:0]
	return nil
}

// truncated drops the checksums of pages beyond the database's new size.
func (f *File) truncated(size int64) error {
	page := f.pageSize.Load()
	if page == 0 {
		return nil
	}
	f.sumsMu.Lock()
	defer f.sumsMu.Unlock()
	if err := f.flush(); err != nil {
		return err
	}
	clear(f.cache)
	end := fileHeader + (size+page-1)/page*entrySize
	info, err := f.sums.Stat()
	if err != nil || info.Size() <= end {
		return err
	}
	return f.sums.Truncate(end)
}

// syncSums syncs the checksums to disk. Readers do not wait for that.
func (f *File) syncSums() error {
	f.sumsMu.Lock()
	err := f.flush()
	dirty := f.dirty
	f.dirty = false
	f.sumsMu.Unlock()
	if err != nil || !dirty {
		return err
	}
	return f.syncMark()
}

func (f *File) report(err error) {
	if f.damaged != nil {
		f.damaged(err)
	}
}
