package checkvfs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"godwit.dev/godwit/internal/store/sqlite/walfile"
)

const (
	// Suffix is what the name of the file with the checksums adds to the database's.
	Suffix    = "-sums"
	logSuffix = "-wal"
	logHeader = walfile.HeaderSize
)

// The file of checksums: a header, then 8 bytes a page, a CRC-32C (Castagnoli, which processors compute) and the same inverted, so
// that a damaged checksum is told from a damaged page. Eight zeros: the page was never written.
const (
	fileHeader = 128
	entrySize  = 8
	fileMagic  = "GdwSums\x01"
	markAt     = 16 // in the header; before it the magic and the size of a page
	markSize   = 8 + 8 + 8 + 8 + 4
)

// DamageError says what is not as it was written.
type DamageError struct {
	Path string
	What string
}

func (e *DamageError) Error() string { return e.Path + " is damaged: " + e.What }

// File watches over one database.
type File struct {
	path     string
	sums     *os.File
	pageSize atomic.Int64 // 0: there is no database yet
	dirty    atomic.Bool  // checksums were written since they were synced
	damaged  func(error)
	shared   bool
	users    int // of the process; guarded by opening

	mu   sync.RWMutex
	mark walfile.Mark
	log  []uint64 // of each page in the log: its checksum and known; written or seen whole by this process
}

const known = 1 << 32

// Options say how a database is watched over.
type Options struct {
	// Expected: there were checksums before, so it is damage if there are none.
	Expected bool
	// Shared: other processes write to the database as well, or only others do.
	Shared bool
	// Damaged is told of each piece of damage that is met. It must not block.
	Damaged func(error)
}

var opening sync.Mutex

// Open begins to watch over the database at path, before SQLite opens it, and checks that its log is whole: the error is
// then a *walfile.Damage. A database without checksums gets them as it is.
func Open(path string, o Options) (*File, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	opening.Lock()
	defer opening.Unlock()
	if f, ok := files.Load(path); ok {
		f := f.(*File)
		f.users++
		return f, nil
	}
	f := &File{path: path, damaged: o.Damaged, shared: o.Shared, users: 1}
	if err := f.open(o.Expected); err != nil {
		return nil, errors.Join(err, f.sums.Close())
	}
	files.Store(path, f)
	return f, nil
}

// Close ends watching, after SQLite has closed the database.
func (f *File) Close() error {
	opening.Lock()
	defer opening.Unlock()
	if f.users--; f.users > 0 {
		return nil
	}
	files.Delete(f.path)
	return errors.Join(f.syncSums(), f.sums.Close())
}

func (f *File) open(expected bool) (err error) {
	name := f.path + Suffix
	flags := os.O_RDWR
	if !expected {
		flags |= os.O_CREATE
	}
	if f.sums, err = os.OpenFile(name, flags, 0o600); errors.Is(err, os.ErrNotExist) {
		return &DamageError{Path: f.path, What: "its checksums are missing: there is no " + filepath.Base(name)}
	}
	if err != nil {
		return fmt.Errorf("open checksums: %w", err)
	}
	size, err := pageSize(f.path)
	if err != nil {
		return err
	}
	f.pageSize.Store(size)
	info, err := f.sums.Stat()
	switch {
	case err != nil:
	case info.Size() == 0 && !expected:
		err = f.adopt()
	default:
		err = f.loadMark()
	}
	if err != nil {
		return err
	}
	return f.openLog()
}

// loadMark reads the header of the checksums.
func (f *File) loadMark() error {
	head := make([]byte, fileHeader)
	_, err := f.sums.ReadAt(head, 0)
	if err == nil && string(head[:8]) != fileMagic {
		err = errors.New("it does not begin like checksums")
	}
	if err == nil {
		f.mark, err = decodeMark(head[markAt:])
	}
	if err != nil {
		return &DamageError{Path: f.path + Suffix, What: err.Error()}
	}
	return nil
}

// openLog checks the log that SQLite is about to recover. Where another process may be writing to it, one look may see a
// frame half written.
func (f *File) openLog() error {
	path := f.path + logSuffix
	l, err := readLog(path, f.mark)
	for try := 1; err != nil && f.shared && try < verifyTries; try++ {
		time.Sleep(verifyPause)
		if err = f.loadMark(); err == nil {
			l, err = readLog(path, f.mark)
		}
	}
	if err != nil || l == nil || f.shared {
		return err
	}
	f.log = make([]uint64, len(l.Frames))
	for i, fr := range l.Frames {
		f.log[i] = known | uint64(fr.Sum)
	}
	return nil
}

func readLog(path string, m walfile.Mark) (*walfile.Log, error) {
	l, err := walfile.Read(path)
	if err == nil {
		err = walfile.Check(path, l, m)
	}
	return l, err
}

// pageSize reads the size of a database's pages; 0: there is no database.
func pageSize(path string) (int64, error) {
	var head [18]byte
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer file.Close()
	n, err := file.ReadAt(head[:], 0)
	switch {
	case n == 0:
		return 0, nil // not written yet: it may be in the log
	case n < len(head):
		return 0, &DamageError{Path: path, What: fmt.Sprintf("it has %d bytes (%v)", n, err)}
	}
	size := int64(binary.BigEndian.Uint16(head[16:]))
	if size == 1 {
		size = walfile.MaxPage
	}
	if string(head[:15]) != "SQLite format 3" || size < walfile.MinPage || size&(size-1) != 0 {
		return 0, &DamageError{Path: path, What: "it does not begin like a database"}
	}
	return size, nil
}

// adopt makes the checksums of a database that has none.
func (f *File) adopt() error {
	head := make([]byte, fileHeader)
	copy(head, fileMagic)
	encodeMark(head[markAt:], f.mark)
	if _, err := f.sums.WriteAt(head, 0); err != nil {
		return fmt.Errorf("write checksums: %w", err)
	}
	size := f.pageSize.Load()
	if size == 0 {
		return nil
	}
	err := eachPage(f.path, size, func(page int64, b []byte) error { return f.wrotePage(b, (page-1)*size) })
	return errors.Join(err, f.syncSums())
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// entry reads the checksum of a page; ok is false if it is not known.
func (f *File) entry(page int64) (sum uint32, ok bool, err error) {
	var b [entrySize]byte
	if n, _ := f.sums.ReadAt(b[:], fileHeader+(page-1)*entrySize); n < entrySize {
		return 0, false, nil // beyond the end: never written
	}
	sum, inverted := binary.LittleEndian.Uint32(b[:]), binary.LittleEndian.Uint32(b[4:])
	switch {
	case sum == 0 && inverted == 0:
		return 0, false, nil
	case sum != ^inverted:
		return 0, false, &DamageError{Path: f.path + Suffix, What: fmt.Sprintf("the checksum of page %d", page)}
	}
	return sum, true, nil
}

// checkPage compares a page that was read with its checksum.
func (f *File) checkPage(b []byte, offset int64, short bool) bool {
	size := f.pageSize.Load()
	if size == 0 || int64(len(b)) != size || offset%size != 0 {
		return true // the header alone, whose page is read whole as well
	}
	page := offset/size + 1
	sum, ok, err := f.entry(page)
	switch {
	case err != nil:
		f.report(err)
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

// wrotePage notes the checksum of a page that was written.
func (f *File) wrotePage(b []byte, offset int64) error {
	if offset == 0 && len(b) >= walfile.MinPage {
		f.pageSize.Store(int64(len(b)))
	}
	size := f.pageSize.Load()
	if int64(len(b)) != size || offset%size != 0 {
		return fmt.Errorf("%d bytes at %d are no page", len(b), offset)
	}
	var e [entrySize]byte
	sum := crc32.Checksum(b, castagnoli)
	binary.LittleEndian.PutUint32(e[:], sum)
	binary.LittleEndian.PutUint32(e[4:], ^sum)
	_, err := f.sums.WriteAt(e[:], fileHeader+offset/size*entrySize)
	f.dirty.Store(true)
	return err
}

// truncated drops the checksums of pages that are no more.
func (f *File) truncated(size int64) error {
	page := f.pageSize.Load()
	if page == 0 {
		return nil
	}
	end := fileHeader + (size+page-1)/page*entrySize
	info, err := f.sums.Stat()
	if err != nil || info.Size() <= end {
		return err
	}
	return f.sums.Truncate(end)
}

func (f *File) syncSums() error {
	if !f.dirty.Swap(false) {
		return nil
	}
	return f.sums.Sync()
}

func (f *File) report(err error) {
	if f.damaged != nil {
		f.damaged(err)
	}
}
