// Package faultvfs is a SQLite VFS for tests. It passes all calls to the default VFS, counts and fails syncs, simulates a full disk, and
// records what has not been synced, so that it can show what a power cut would leave.
package faultvfs

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"
	"unsafe"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
	"zombiezen.com/go/sqlite"
)

// VFS is a registered VFS. Its callbacks are closures that SQLite calls through pointers in C memory.
type VFS struct {
	name  string
	orig  *lib.Tsqlite3_vfs
	pOrig uintptr
	keep  []any // the closures, so that the garbage collector keeps them

	mu       sync.Mutex
	handles  map[uintptr]*handle // by sqlite3_file
	files    map[string]*file
	methods  map[uintptr]uintptr // this VFS's method table for each of the default VFS's
	syncs    int
	writes   int
	failSync bool
	failIO   bool
	slow     time.Duration
	room     int64 // bytes by which all files may still grow; negative: no limit
	ballast  string
	original os.FileInfo // of the ballast
	bonus    int64       // what deleting the ballast gives
}

type (
	handle struct {
		file *file
		orig *lib.Tsqlite3_io_methods
	}
	// file holds the changes of a file since its last sync, newest last.
	file struct{ undo []undo }
	undo struct {
		at   int64
		old  []byte
		size int64 // of the file before
	}
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
	xFileSize = func(tls *libc.TLS, pFile, pSize uintptr) int32
)

// at views C memory as a T.
func at[T any](p uintptr) *T { return *(**T)(unsafe.Pointer(&p)) }

// call makes a C function pointer callable.
func call[F any](p uintptr) F { return *(*F)(unsafe.Pointer(&p)) }

// pointer makes a Go function callable from C.
func pointer[F any](v *VFS, f F) uintptr {
	v.keep = append(v.keep, f)
	return *(*uintptr)(unsafe.Pointer(&f))
}

// New registers a VFS for one test. Databases opened with its name must be closed before the test ends.
func New(t testing.TB) *VFS {
	t.Helper()
	// Opening a connection once initialises SQLite with the driver's settings.
	conn, err := sqlite.OpenConn(":memory:")
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	tls := libc.NewTLS()
	v := &VFS{
		handles: make(map[uintptr]*handle), files: make(map[string]*file), methods: make(map[uintptr]uintptr), room: -1,
	}
	v.name = fmt.Sprintf("fault-%p", v)
	v.pOrig = lib.Xsqlite3_vfs_find(tls, 0)
	v.orig = at[lib.Tsqlite3_vfs](v.pOrig)
	zName, err := libc.CString(v.name)
	if err != nil {
		t.Fatal(err)
	}
	p := libc.Xmalloc(tls, libc.Tsize_t(unsafe.Sizeof(lib.Tsqlite3_vfs{})))
	vfs := at[lib.Tsqlite3_vfs](p)
	list := lib.Xsqlite3_mutex_alloc(tls, lib.SQLITE_MUTEX_STATIC_MAIN) // a concurrent registration links itself to orig, too
	lib.Xsqlite3_mutex_enter(tls, list)
	*vfs = *v.orig
	lib.Xsqlite3_mutex_leave(tls, list)
	vfs.FpNext, vfs.FzName = 0, zName
	vfs.FxOpen = pointer(v, xOpen(v.open))
	vfs.FxDelete = pointer(v, xDelete(v.remove))
	if rc := lib.Xsqlite3_vfs_register(tls, p, 0); rc != lib.SQLITE_OK {
		t.Fatalf("register VFS: code %d", rc)
	}
	t.Cleanup(func() {
		lib.Xsqlite3_vfs_unregister(tls, p)
		for _, m := range v.methods {
			libc.Xfree(tls, m)
		}
		libc.Xfree(tls, p)
		libc.Xfree(tls, zName)
		tls.Close()
	})
	return v
}

// Name returns the VFS name with which to open databases.
func (v *VFS) Name() string { return v.name }

// Syncs counts successful syncs of any file.
func (v *VFS) Syncs() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.syncs
}

// Writes counts successful writes to any file.
func (v *VFS) Writes() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.writes
}

// FailSyncs makes every sync fail, or succeed again.
func (v *VFS) FailSyncs(fail bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.failSync = fail
}

// SlowSyncs makes every sync take longer by a duration.
func (v *VFS) SlowSyncs(by time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.slow = by
}

// FailWrites makes every write fail with EIO, as on a broken disk, or succeed again.
func (v *VFS) FailWrites(fail bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.failIO = fail
}

// Leave limits by how many bytes all files together may grow before the disk is full. Negative: no limit.
func (v *VFS) Leave(room int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.room = room
}

// PowerCut copies a database and its log as a power cut now would leave them: without the writes since each file's last sync. Only the
// checksums keep such writes, since they may be ahead of the pages.
func (v *VFS) PowerCut(path, to string) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, suffix := range []string{"", "-wal", "-sums", "-note"} {
		b, err := os.ReadFile(path + suffix)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if f := v.files[path+suffix]; f != nil {
			for _, u := range slices.Backward(f.undo) {
				if int64(len(b)) < u.size {
					b = append(b, make([]byte, u.size-int64(len(b)))...)
				}
				copy(b[min(u.at, int64(len(b))):], u.old)
				b = b[:u.size]
			}
		}
		if err := os.WriteFile(to+suffix, b, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// Ballast names a file outside the database whose deletion frees space once.
func (v *VFS) Ballast(path string, size int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.ballast, v.bonus = path, size
	v.original, _ = os.Stat(path) // nil, so a missing file counts as deleted
}

// BallastGiven reports whether the ballast was deleted since the call of Ballast, even if it was created again since.
func (v *VFS) BallastGiven() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.ballast != "" && (v.bonus == 0 || v.ballastDeleted())
}

func (v *VFS) ballastDeleted() bool {
	now, err := os.Stat(v.ballast)
	return err != nil || v.original == nil || !os.SameFile(now, v.original) || !now.ModTime().Equal(v.original.ModTime())
}

// takeBallast adds the ballast's space if it has been deleted.
func (v *VFS) takeBallast() {
	if v.bonus > 0 && v.ballastDeleted() {
		v.room += v.bonus
		v.bonus = 0
	}
}

func (v *VFS) open(tls *libc.TLS, _, zName, pFile uintptr, flags int32, pOut uintptr) int32 {
	rc := call[xOpen](v.orig.FxOpen)(tls, v.pOrig, zName, pFile, flags, pOut)
	pMethods := &at[lib.Tsqlite3_file](pFile).FpMethods
	if rc != lib.SQLITE_OK || *pMethods == 0 || zName == 0 {
		return rc
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	name := libc.GoString(zName)
	f := v.files[name]
	if f == nil {
		f = &file{}
		v.files[name] = f
	}
	v.handles[pFile] = &handle{file: f, orig: at[lib.Tsqlite3_io_methods](*pMethods)}
	ours := v.methods[*pMethods]
	if ours == 0 {
		ours = libc.Xmalloc(tls, libc.Tsize_t(unsafe.Sizeof(lib.Tsqlite3_io_methods{})))
		m := at[lib.Tsqlite3_io_methods](ours)
		*m = *at[lib.Tsqlite3_io_methods](*pMethods)
		m.FxClose = pointer(v, xClose(v.close))
		m.FxWrite = pointer(v, xWrite(v.write))
		m.FxTruncate = pointer(v, xTruncate(v.truncate))
		m.FxSync = pointer(v, xSync(v.sync))
		v.methods[*pMethods] = ours
	}
	*pMethods = ours
	return rc
}

func (v *VFS) remove(tls *libc.TLS, _, zName uintptr, syncDir int32) int32 {
	rc := call[xDelete](v.orig.FxDelete)(tls, v.pOrig, zName, syncDir)
	v.mu.Lock()
	defer v.mu.Unlock()
	if rc == lib.SQLITE_OK {
		delete(v.files, libc.GoString(zName))
	}
	return rc
}

func (v *VFS) close(tls *libc.TLS, pFile uintptr) int32 {
	v.mu.Lock()
	h := v.handles[pFile]
	delete(v.handles, pFile)
	v.mu.Unlock()
	return call[xClose](h.orig.FxClose)(tls, pFile)
}

func (v *VFS) sync(tls *libc.TLS, pFile uintptr, flags int32) int32 {
	v.mu.Lock()
	slow := v.slow
	v.mu.Unlock()
	time.Sleep(slow)
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.failSync {
		return lib.SQLITE_IOERR_FSYNC
	}
	h := v.handles[pFile]
	rc := call[xSync](h.orig.FxSync)(tls, pFile, flags)
	if rc == lib.SQLITE_OK {
		v.syncs++
		h.file.undo = nil
	}
	return rc
}

func (v *VFS) write(tls *libc.TLS, pFile, buf uintptr, n int32, offset int64) int32 {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.failIO {
		return lib.SQLITE_IOERR_WRITE
	}
	h := v.handles[pFile]
	size, rc := h.size(tls, pFile)
	if rc != lib.SQLITE_OK {
		return rc
	}
	if growth := offset + int64(n) - size; growth > 0 && v.room >= 0 {
		if v.takeBallast(); growth > v.room {
			return lib.SQLITE_FULL
		}
		v.room -= growth
	}
	if rc := h.remember(tls, pFile, offset, int64(n), size); rc != lib.SQLITE_OK {
		return rc
	}
	rc = call[xWrite](h.orig.FxWrite)(tls, pFile, buf, n, offset)
	if rc == lib.SQLITE_OK {
		v.writes++
	}
	return rc
}

func (v *VFS) truncate(tls *libc.TLS, pFile uintptr, to int64) int32 {
	v.mu.Lock()
	defer v.mu.Unlock()
	h := v.handles[pFile]
	size, rc := h.size(tls, pFile)
	if rc == lib.SQLITE_OK && to < size {
		rc = h.remember(tls, pFile, to, size-to, size)
	}
	if rc != lib.SQLITE_OK {
		return rc
	}
	return call[xTruncate](h.orig.FxTruncate)(tls, pFile, to)
}

func (h *handle) size(tls *libc.TLS, pFile uintptr) (int64, int32) {
	p := libc.Xmalloc(tls, 8)
	defer libc.Xfree(tls, p)
	rc := call[xFileSize](h.orig.FxFileSize)(tls, pFile, p)
	return *at[int64](p), rc
}

// remember saves the bytes that are about to be overwritten.
func (h *handle) remember(tls *libc.TLS, pFile uintptr, offset, n, size int64) int32 {
	u := undo{at: offset, size: size}
	if n = min(n, size-offset); n > 0 {
		p := libc.Xmalloc(tls, libc.Tsize_t(n))
		defer libc.Xfree(tls, p)
		if rc := call[xRead](h.orig.FxRead)(tls, pFile, p, int32(n), offset); rc != lib.SQLITE_OK {
			return rc
		}
		u.old = bytes.Clone(libc.GoBytes(p, int(n))) // copied, since it is only a view of C memory
	}
	h.file.undo = append(h.file.undo, u)
	return lib.SQLITE_OK
}
