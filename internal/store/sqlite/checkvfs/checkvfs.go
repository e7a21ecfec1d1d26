// Package checkvfs is the SQLite VFS under the server's databases. It passes all calls to another VFS. Beside each database it stores a
// checksum of every page and a note of how much of the log is on disk, so that a page altered by a disk is never taken for data, and a
// truncated log never for a complete one. DESIGN.md in internal/store gives the reasons.
package checkvfs

import (
	"encoding/binary"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"unsafe"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
	"zombiezen.com/go/sqlite"

	"godwit.dev/godwit/internal/store/sqlite/walfile"
)

// C function types of the wrapped methods.
type (
	xOpen     = func(tls *libc.TLS, pVfs, zName, pFile uintptr, flags int32, pOut uintptr) int32
	xDelete   = func(tls *libc.TLS, pVfs, zName uintptr, syncDir int32) int32
	xClose    = func(tls *libc.TLS, pFile uintptr) int32
	xRead     = func(tls *libc.TLS, pFile, buf uintptr, n int32, at int64) int32
	xWrite    = func(tls *libc.TLS, pFile, buf uintptr, n int32, at int64) int32
	xTruncate = func(tls *libc.TLS, pFile uintptr, size int64) int32
	xSync     = func(tls *libc.TLS, pFile uintptr, flags int32) int32
)

// at views C memory as a T.
func at[T any](p uintptr) *T { return *(**T)(unsafe.Pointer(&p)) }

// call makes a C function pointer callable.
func call[F any](p uintptr) F { return *(*F)(unsafe.Pointer(&p)) }

// bytes views C memory as bytes.
func bytes(p uintptr, n int32) []byte { return unsafe.Slice(at[byte](p), n) }

// vfs is a registered VFS over another one.
type vfs struct {
	name string
	base *lib.Tsqlite3_vfs
	ptr  uintptr // of base
	room uintptr // offset of this VFS's handle number in a sqlite3_file
	keep []any   // closures to which C memory points, so that the garbage collector keeps them

	mu      sync.Mutex
	methods map[uintptr]uintptr // this VFS's method table for each of the base's
	handles sync.Map            // uint64 → *handle
	next    atomic.Uint64
}

// handle is one open file of a connection.
type handle struct {
	f    *File
	log  bool
	base *lib.Tsqlite3_io_methods
	buf  uintptr // buffer for frame headers that are read from the log
	last int64   // of a log: end offset of the commit whose last page is about to be written

	gathered gathered // of a log
}

var overDefault = sync.OnceValues(func() (*vfs, error) { return register("", "checked") })

// over holds the VFSs over others than the default one. SQLite's memory points to them, which the garbage collector cannot see.
var over struct {
	sync.Mutex
	all []*vfs
}

// On registers the VFS over the VFS named base and returns its name. The VFS over the default one (base is empty) is registered once.
// Others, which tests create and remove, are registered by each call.
func On(base string) (string, error) {
	if base != "" {
		over.Lock()
		defer over.Unlock()
		v, err := register(base, fmt.Sprintf("checked-%s-%d", base, len(over.all)))
		if err != nil {
			return "", err
		}
		over.all = append(over.all, v)
		return v.name, nil
	}
	v, err := overDefault()
	if err != nil {
		return "", err
	}
	return v.name, nil
}

func register(base, name string) (*vfs, error) {
	// Opening a connection once initialises SQLite with the driver's settings.
	conn, err := sqlite.OpenConn(":memory:")
	if err != nil {
		return nil, err
	}
	if err := conn.Close(); err != nil {
		return nil, err
	}
	tls := libc.NewTLS() // exists as long as the process
	v := &vfs{methods: make(map[uintptr]uintptr), name: name}
	zBase := uintptr(0)
	if base != "" {
		if zBase, err = libc.CString(base); err != nil {
			return nil, err
		}
		defer libc.Xfree(tls, zBase)
	}
	if v.ptr = lib.Xsqlite3_vfs_find(tls, zBase); v.ptr == 0 {
		return nil, fmt.Errorf("SQLite has no VFS %q", base)
	}
	v.base = at[lib.Tsqlite3_vfs](v.ptr)
	zName, err := libc.CString(v.name)
	if err != nil {
		return nil, err
	}
	p := libc.Xmalloc(tls, libc.Tsize_t(unsafe.Sizeof(lib.Tsqlite3_vfs{})))
	ours := at[lib.Tsqlite3_vfs](p)
	list := lib.Xsqlite3_mutex_alloc(tls, lib.SQLITE_MUTEX_STATIC_MAIN) // a concurrent registration links itself to base, too
	lib.Xsqlite3_mutex_enter(tls, list)
	*ours = *v.base
	lib.Xsqlite3_mutex_leave(tls, list)
	v.room = (uintptr(v.base.FszOsFile) + 7) &^ 7
	ours.FszOsFile = int32(v.room) + 8
	ours.FpNext, ours.FzName = 0, zName
	ours.FxOpen = pointer(v, xOpen(v.open))
	ours.FxDelete = pointer(v, xDelete(v.remove))
	if rc := lib.Xsqlite3_vfs_register(tls, p, 0); rc != lib.SQLITE_OK {
		return nil, fmt.Errorf("register VFS: code %d", rc)
	}
	return v, nil
}

// pointer makes a Go function callable from C.
func pointer[F any](v *vfs, f F) uintptr {
	v.keep = append(v.keep, f)
	return *(*uintptr)(unsafe.Pointer(&f))
}

func (v *vfs) handle(pFile uintptr) *handle {
	h, _ := v.handles.Load(*at[uint64](pFile + v.room))
	return h.(*handle)
}

// open wraps watched databases and their logs; the base VFS alone handles all other files.
func (v *vfs) open(tls *libc.TLS, _, zName, pFile uintptr, flags int32, pOut uintptr) int32 {
	rc := call[xOpen](v.base.FxOpen)(tls, v.ptr, zName, pFile, flags, pOut)
	pMethods := &at[lib.Tsqlite3_file](pFile).FpMethods
	if rc != lib.SQLITE_OK || *pMethods == 0 || zName == 0 || flags&(lib.SQLITE_OPEN_MAIN_DB|lib.SQLITE_OPEN_WAL) == 0 {
		return rc
	}
	log := flags&lib.SQLITE_OPEN_WAL != 0
	f := find(libc.GoString(zName), log)
	if f == nil {
		return rc
	}
	f.opened(log)
	h := &handle{f: f, log: log, base: at[lib.Tsqlite3_io_methods](*pMethods)}
	if log {
		h.buf = libc.Xmalloc(tls, logHeader)
	}
	id := v.next.Add(1)
	v.handles.Store(id, h)
	*at[uint64](pFile + v.room) = id
	*pMethods = v.table(tls, *pMethods)
	return rc
}

// table returns the base's method table with the wrapped methods in it.
func (v *vfs) table(tls *libc.TLS, base uintptr) uintptr {
	v.mu.Lock()
	defer v.mu.Unlock()
	if ours := v.methods[base]; ours != 0 {
		return ours
	}
	ours := libc.Xmalloc(tls, libc.Tsize_t(unsafe.Sizeof(lib.Tsqlite3_io_methods{})))
	m := at[lib.Tsqlite3_io_methods](ours)
	*m = *at[lib.Tsqlite3_io_methods](base)
	m.FxClose = pointer(v, xClose(v.close))
	m.FxRead = pointer(v, xRead(v.read))
	m.FxWrite = pointer(v, xWrite(v.write))
	m.FxTruncate = pointer(v, xTruncate(v.truncate))
	m.FxSync = pointer(v, xSync(v.sync))
	if m.FiVersion > 2 {
		m.FiVersion = 2 // version 2 has no xFetch: mapped pages would be read unchecked
	}
	v.methods[base] = ours
	return ours
}

func (v *vfs) close(tls *libc.TLS, pFile uintptr) int32 {
	id := *at[uint64](pFile + v.room)
	h := v.handle(pFile)
	v.handles.Delete(id)
	flushed := h.flush(tls, pFile)
	for _, p := range []uintptr{h.buf, h.gathered.buf} {
		if p != 0 {
			libc.Xfree(tls, p)
		}
	}
	if rc := call[xClose](h.base.FxClose)(tls, pFile); rc != lib.SQLITE_OK {
		return rc
	}
	return flushed
}

// remove records a log's deletion, before and after it. SQLite deletes a log once all its pages are copied into the database.
func (v *vfs) remove(tls *libc.TLS, _, zName uintptr, syncDir int32) int32 {
	f := find(libc.GoString(zName), true)
	if f != nil && f.logCopied() != nil {
		return lib.SQLITE_IOERR_DELETE
	}
	rc := call[xDelete](v.base.FxDelete)(tls, v.ptr, zName, syncDir)
	if rc == lib.SQLITE_OK && f != nil && f.logRemoved() != nil {
		return lib.SQLITE_IOERR_DELETE
	}
	return rc
}

func (v *vfs) read(tls *libc.TLS, pFile, buf uintptr, n int32, offset int64) int32 {
	h := v.handle(pFile)
	if rc := h.flush(tls, pFile); rc != lib.SQLITE_OK {
		return rc
	}
	rc := call[xRead](h.base.FxRead)(tls, pFile, buf, n, offset)
	short := rc == lib.SQLITE_IOERR_SHORT_READ
	if rc != lib.SQLITE_OK && !short {
		return rc
	}
	var good bool
	switch {
	case !h.log:
		good = h.f.checkPage(bytes(buf, n), offset, short)
	case short:
		good = h.f.checkCutOff(n, offset)
	case h.f.shared:
		good = h.checkChain(tls, pFile, bytes(buf, n), offset)
	default:
		good = h.f.checkFrame(bytes(buf, n), offset)
	}
	if !good {
		return lib.SQLITE_IOERR_DATA
	}
	return rc
}

func (v *vfs) write(tls *libc.TLS, pFile, buf uintptr, n int32, offset int64) int32 {
	h := v.handle(pFile)
	if h.log {
		return h.writeLog(tls, pFile, buf, n, offset)
	}
	if !h.f.huge {
		clearSlack(bytes(buf, n), offset)
	}
	rc := call[xWrite](h.base.FxWrite)(tls, pFile, buf, n, offset)
	if rc != lib.SQLITE_OK {
		return rc
	}
	if h.f.wrotePage(bytes(buf, n), offset) != nil {
		return lib.SQLITE_IOERR_WRITE
	}
	return rc
}

func (v *vfs) truncate(tls *libc.TLS, pFile uintptr, size int64) int32 {
	h := v.handle(pFile)
	if rc := h.flush(tls, pFile); rc != lib.SQLITE_OK {
		return rc
	}
	rc := call[xTruncate](h.base.FxTruncate)(tls, pFile, size)
	if rc == lib.SQLITE_OK && !h.log && h.f.truncated(size) != nil {
		return lib.SQLITE_IOERR_TRUNCATE
	}
	return rc
}

// sync records, after a log's sync, how much of it is on disk. For a database it syncs the checksums before the pages: SQLite restarts the
// log only after both, so a page and a checksum that do not match are still in the log.
func (v *vfs) sync(tls *libc.TLS, pFile uintptr, flags int32) int32 {
	h := v.handle(pFile)
	if !h.log && h.f.syncSums() != nil {
		return lib.SQLITE_IOERR_FSYNC
	}
	if rc := h.flush(tls, pFile); rc != lib.SQLITE_OK {
		return rc
	}
	end := h.f.end.Load()
	rc := call[xSync](h.base.FxSync)(tls, pFile, flags)
	if rc != lib.SQLITE_OK || !h.log || end == 0 {
		return rc
	}
	header := h.f.logHead()
	if header == nil {
		if rc := call[xRead](h.base.FxRead)(tls, pFile, h.buf, logHeader, 0); rc != lib.SQLITE_OK {
			return rc
		}
		header = bytes(h.buf, logHeader)
	}
	if h.f.synced(header, end) != nil {
		return lib.SQLITE_IOERR_FSYNC
	}
	h.f.end.CompareAndSwap(end, 0)
	return rc
}

// wroteLog records a connection's writes to the log: each frame is its header, then its page. A transaction that is rolled back may have
// written frames, too, so only the frame that ends a commit counts.
func (h *handle) wroteLog(b []byte, offset int64) {
	end := offset + int64(len(b))
	switch {
	case offset == 0:
		h.last = 0
		h.f.end.Store(0)
	case len(b) == walfile.FrameHead && binary.BigEndian.Uint32(b[4:]) != 0:
		h.last = end + h.f.pageSize.Load()
	case end == h.last:
		h.f.end.Store(end)
	}
	h.f.wroteLog(b, offset)
}

// checkChain checks a page of a log to which other processes write, too, against the chain of SQLite's own checksums.
func (h *handle) checkChain(tls *libc.TLS, pFile uintptr, page []byte, offset int64) bool {
	i, ok := h.f.frame(len(page), offset)
	if !ok {
		return true
	}
	var header [logHeader]byte
	var before, head [walfile.FrameHead]byte
	step := int64(len(page) + walfile.FrameHead)
	for _, part := range []struct {
		to []byte
		at int64
	}{{header[:], 0}, {head[:], offset - walfile.FrameHead}, {before[:], offset - walfile.FrameHead - step}} {
		if part.at < 0 {
			continue
		}
		if call[xRead](h.base.FxRead)(tls, pFile, h.buf, int32(len(part.to)), part.at) != lib.SQLITE_OK {
			return true // the following read fails, too
		}
		copy(part.to, bytes(h.buf, int32(len(part.to))))
	}
	chain := before[16:]
	if i == 0 {
		chain = header[24:]
	}
	if walfile.Follows(header[:], chain, head[:], page) {
		return true
	}
	h.f.badFrame(i)
	return false
}

// files maps absolute paths to the watched databases.
var files sync.Map

func find(name string, log bool) *File {
	if log {
		name = name[:len(name)-len(logSuffix)]
	}
	if abs, err := filepath.Abs(name); err == nil {
		name = abs
	}
	f, ok := files.Load(name)
	if !ok {
		return nil
	}
	return f.(*File)
}
