package checkvfs

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
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
	fileHeader = 128 << 10
	entrySize  = 8
	fileMagic  = "GdwSums\x02"
	storeAt    = 56  // the store's id and its checksum
	lifeAt     = 80  // drawn when the checksums were made; the note has it, too
	markAt     = 512 // the mark as it last was when checksums were synced, in turn here and in the next sector

	firstPageAt = 64 << 10 // a copy of the first page, without which a database cannot be read at all
)

// ID names the store that a file belongs to.
type ID [16]byte

func (id ID) String() string { return hex.EncodeToString(id[:]) }

// DamageError says what is not as it was written.
type DamageError struct {
	Path string
	What string
}

func (e *DamageError) Error() string { return e.Path + " is damaged: " + e.What }

// ForeignError says that a database belongs to another store.
type ForeignError struct {
	Path        string
	Store, Want ID
}

func (e *ForeignError) Error() string {
	return fmt.Sprintf("%s belongs to another store (%s) than the files beside it (%s)", e.Path, e.Store, e.Want)
}

// File watches over one database.
type File struct {
	path     string
	sums     *os.File
	note     note
	pageSize atomic.Int64 // 0: there is no database yet
	damaged  func(error)
	shared   bool
	lax      bool
	huge     bool         // unused room in pages is left as it is: see slackMost
	users    int          // of the process; guarded by opening
	end      atomic.Int64 // of the last commit that was written to the log and not synced yet; 0: there is none

	// Of the log. Who commits waits for no disk here.
	mu          sync.RWMutex
	mark        walfile.Mark
	turn        uint64         // how often the mark was changed
	logHeader   []byte         // as it is in the log; nil: not known
	tally       walfile.Tally  // with the transaction under way
	clean       bool           // there was no log when the file was opened
	head        walfile.Note   // of the frame whose page is about to be written
	first       int            // frame of the first of notes
	notes       []walfile.Note // frames that were written since the last sync
	buf         []byte
	log         []uint64 // of each page in the log: its checksum and known; written or seen whole by this process
	dbID, logID identity

	// Of the database.
	sumsMu sync.RWMutex
	cache  map[int64][]byte // chunks of checksums as they are in the file
	fresh  []entry          // checksums that are not in the file yet, in the order of pages
	dirty  bool             // checksums were written since they were synced
	copies int              // of the mark beside them
}

// entry is the checksum of a page.
type entry struct {
	page int64
	sum  uint32
}

// chunk is how many checksums are read together: 4 KB.
const chunk = 512

// maxFresh is how many checksums wait for the next sync, which is what they must be written before.
const maxFresh = 8192

const known = 1 << 32

// Options say how a database is watched over.
type Options struct {
	// Expected: there were checksums before, so it is damage if there are none.
	Expected bool
	// Store is what the database must belong to; zero: it does not matter. One without gets it.
	Store ID
	// Lax: commits are not synced one by one, so a log with a hole in it may be what a power cut has left.
	Lax bool
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
	f := &File{path: path, damaged: o.Damaged, shared: o.Shared, lax: o.Lax, users: 1}
	if err := f.open(&o); err != nil {
		return nil, errors.Join(err, f.release())
	}
	if info, err := os.Stat(path); err == nil {
		f.huge = info.Size() > slackMost
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
	return errors.Join(f.syncSums(), f.release())
}

func (f *File) open(o *Options) (err error) {
	name := f.path + Suffix
	flags := os.O_RDWR
	if !o.Expected {
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
	if !o.Expected && f.unmade() {
		err = f.adopt()
	}
	if err == nil {
		err = f.openNote()
	}
	if err == nil {
		err = f.belong(o.Store)
	}
	if err != nil {
		return err
	}
	return f.openLog()
}

// unmade reports whether there are no checksums, or they were not made to the end.
func (f *File) unmade() bool {
	head := make([]byte, len(fileMagic))
	n, _ := f.sums.ReadAt(head, 0)
	return n < len(head) || string(head) == string(make([]byte, len(head)))
}

// belong compares the store that the database belongs to with the wanted one.
func (f *File) belong(want ID) error {
	if want == (ID{}) {
		return nil
	}
	b := make([]byte, len(want)+4)
	if _, err := f.sums.ReadAt(b, storeAt); err != nil {
		return fmt.Errorf("read checksums: %w", err)
	}
	is := ID(b)
	switch {
	case is == ID{}:
		copy(b, want[:])
		binary.LittleEndian.PutUint32(b[len(want):], crc32.Checksum(want[:], castagnoli))
		_, err := f.sums.WriteAt(b, storeAt)
		return err
	case binary.LittleEndian.Uint32(b[len(want):]) != crc32.Checksum(is[:], castagnoli):
		return &DamageError{Path: f.path + Suffix, What: "the id of its store"}
	case is != want:
		return &ForeignError{Path: f.path, Store: is, Want: want}
	}
	return nil
}

// StoreOf reads which store a database belongs to; zero: none, or that cannot be told.
func StoreOf(path string) (id ID) {
	b, err := readHead(path)
	if err != nil || binary.LittleEndian.Uint32(b[storeAt+len(id):]) != crc32.Checksum(b[storeAt:storeAt+len(id)], castagnoli) {
		return ID{}
	}
	return ID(b[storeAt:])
}

func readHead(path string) (b [lifeAt]byte, err error) {
	f, err := os.Open(path + Suffix)
	if err != nil {
		return b, err
	}
	defer f.Close()
	_, err = f.ReadAt(b[:], 0)
	return b, err
}

// openLog checks the log that SQLite is about to recover.
func (f *File) openLog() error { return f.lookAgain(f.lookAtLog()) }

// lookAgain looks at mark and log anew after err. Where another process may be writing to them, one look may see a frame
// half written.
func (f *File) lookAgain(err error) error {
	for try := 1; err != nil && f.shared && try < verifyTries; try++ {
		time.Sleep(verifyPause)
		if err = f.loadMark(); err == nil {
			err = f.lookAtLog()
		}
	}
	return err
}

func (f *File) lookAtLog() error {
	l, err := readLog(f.path+logSuffix, f.mark, f.lax)
	if err == nil {
		err = f.checkLength(l)
	}
	f.clean = l == nil
	if err != nil || l == nil || f.shared {
		return err
	}
	f.log = make([]uint64, len(l.Frames))
	for i, fr := range l.Frames {
		f.log[i] = known | uint64(fr.Sum)
	}
	return nil
}

// checkLength finds a database that is shorter than it was. What lies in the log need not be in it yet.
func (f *File) checkLength(l *walfile.Log) error {
	info, err := f.sums.Stat()
	if err != nil {
		return err
	}
	have, want := int64(0), (info.Size()-fileHeader)/entrySize
	if info, err := os.Stat(f.path); err == nil {
		have = info.Size() / max(f.pageSize.Load(), 1)
	}
	if l != nil && l.Commits > 0 {
		want = min(want, l.Pages)
	}
	if have >= want {
		return nil
	}
	if have == 0 {
		return &DamageError{Path: f.path, What: fmt.Sprintf("it is missing or empty, and had %d pages", want)}
	}
	logged := make(map[int64]bool)
	if l != nil {
		for _, fr := range l.Frames {
			logged[int64(fr.Page)] = true
		}
	}
	for page := have + 1; page <= want; page++ {
		if _, ok, err := f.entry(page); !logged[page] && (ok || err != nil) {
			return &DamageError{Path: f.path, What: fmt.Sprintf("it ends before page %d of %d", page, want)}
		}
	}
	return nil
}

func readLog(path string, m walfile.Mark, lax bool) (*walfile.Log, error) {
	l, err := walfile.Read(path)
	if err == nil && l != nil && lax {
		l.Later = 0
	}
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

// adopt makes the checksums of a database that has none. Their header comes last: it says that they are whole.
func (f *File) adopt() error {
	if size := f.pageSize.Load(); size > 0 {
		err := eachPage(f.path, size, func(page int64, b []byte) error { return f.wrotePage(b, (page-1)*size) })
		if err = errors.Join(err, f.syncSums()); err != nil {
			return fmt.Errorf("make checksums: %w", err)
		}
	}
	info, err := f.sums.Stat()
	if err == nil && info.Size() < fileHeader {
		_, err = f.sums.WriteAt([]byte{0}, fileHeader-1) // before its beginning: a header that is cut off is damage
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
		return true // the header alone, whose page is read whole as well
	}
	page := offset/size + 1
	sum, ok, err := f.entry(page)
	switch {
	case err != nil:
		f.report(err)
		return false
	case !ok && !written(b):
		return true // a page that SQLite has left out
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

// written reports whether there is anything in a page.
func written(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return true
		}
	}
	return false
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
		// Another process may read the page before it is synced: a checkpoint that a reader keeps from the end of the log syncs
		// nothing. It may also write it anew, whose checksum must not be overwritten by this one later.
		return f.flush()
	}
	return nil
}

// flush writes the checksums that have gathered: neighbours together, and checkpoints write pages in order. Until the pages
// are synced this process compares them with what has gathered, so it is early enough.
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

// truncated drops the checksums of pages that are no more.
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

// syncSums has the checksums on disk. Readers do not wait for that.
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
