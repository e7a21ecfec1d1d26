package checkvfs

import (
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"godwit.dev/godwit/internal/store/sqlite/walfile"
)

const (
	// Suffix is the suffix of the file with a database's checksums.
	Suffix    = "-sums"
	logSuffix = "-wal"
	logHeader = walfile.HeaderSize
)

// The file of checksums: a header, then 8 bytes per page, a CRC-32C (Castagnoli, which processors compute) and its inverse, so that a
// damaged checksum is distinguished from a damaged page. Eight zero bytes: the page was never written.
const (
	fileHeader = 128 << 10
	entrySize  = 8
	fileMagic  = "GdwSums\x02"
	storeAt    = 56  // the store's id and its checksum
	lifeAt     = 80  // random, chosen when the checksums were created; the note has the same
	markAt     = 512 // the mark at the last sync of checksums, written in turn here and in the next sector

	firstPageAt = 64 << 10 // a copy of the first page, without which the database is unreadable
)

// ID identifies the store to which a file belongs.
type ID [16]byte

func (id ID) String() string { return hex.EncodeToString(id[:]) }

// DamageError names a file and the part of it that differs from what was written.
type DamageError struct {
	Path string
	What string
}

func (e *DamageError) Error() string { return e.Path + " is damaged: " + e.What }

// ForeignError reports that a database belongs to another store.
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
	huge     bool         // unused space in pages is not zeroed: see slackMost
	users    int          // of the process; guarded by opening
	end      atomic.Int64 // end of the last commit that was written to the log and is not synced yet; 0: none

	// Of the log. Commits never wait for a disk here.
	mu          sync.RWMutex
	mark        walfile.Mark
	turn        uint64         // number of changes of the mark
	logHeader   []byte         // the log's header; nil: unknown
	tally       walfile.Tally  // with the transaction under way
	clean       bool           // no log existed when the file was opened
	head        walfile.Note   // note of the frame whose page is about to be written
	first       int            // frame number of notes[0]
	notes       []walfile.Note // notes of frames written since the last sync
	buf         []byte
	log         []uint64 // for each page in the log its checksum and a flag known: written or completely read by this process
	dbID, logID identity

	// Of the database.
	sumsMu sync.RWMutex
	cache  map[int64][]byte // chunks of checksums, as stored in the file
	fresh  []entry          // checksums not yet written to the file, in the order of pages
	dirty  bool             // checksums were written since their last sync
	copies int              // of the mark beside them
}

// entry is the checksum of a page.
type entry struct {
	page int64
	sum  uint32
}

// chunk is how many checksums are read together, 4 KB.
const chunk = 512

// maxFresh limits how many checksums wait for the next sync, before which they must be written.
const maxFresh = 8192

const known = 1 << 32

// Options control how a database is checked.
type Options struct {
	// Expected: the database had checksums, so missing ones are damage.
	Expected bool
	// Store is the store to which the database must belong; zero: any. A database without a store is assigned to it.
	Store ID
	// Lax: commits are not synced one by one, so a power cut may leave a log with a gap.
	Lax bool
	// Shared: other processes write to the database, too, or only they do.
	Shared bool
	// Damaged is called for each piece of damage found. It must not block.
	Damaged func(error)
}

var opening sync.Mutex

// Open starts watching the database at path, before SQLite opens it, and checks that its log is complete: if it is not, the error is a
// *walfile.Damage. A database without checksums gets checksums of its current pages.
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

// Close stops watching. SQLite must have closed the database before.
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

// unmade reports whether checksums are missing or incomplete.
func (f *File) unmade() bool {
	head := make([]byte, len(fileMagic))
	n, _ := f.sums.ReadAt(head, 0)
	return n < len(head) || string(head) == string(make([]byte, len(head)))
}
