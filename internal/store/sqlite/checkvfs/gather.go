package checkvfs

import (
	"encoding/binary"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"

	"godwit.dev/godwit/internal/store/sqlite/walfile"
)

// gatherMost is how many bytes of a log are written by one system call: as many as a lone commit has, several times over.
const gatherMost = 64 << 10

// gathered is what a connection has written to the end of its log and the file does not have yet. SQLite writes each frame's
// head and page by themselves. They reach the file together, at the latest with the page that ends a commit, before SQLite
// tells readers of it, and before the log is synced, read or cut off through the same connection.
type gathered struct {
	buf   uintptr // of gatherMost bytes; 0: nothing was gathered yet
	n     int32
	at    int64   // of the first byte
	parts []int32 // how long each piece is, as SQLite wrote them
	next  int64   // end of the last write
	end   int64   // where the page that ends a commit begins; 0: the last head was of another page
}

// writeLog writes to a log, or gathers writes. Only a write that continues the last one is gathered: frames that replace others need not
// end with a page.
func (h *handle) writeLog(tls *libc.TLS, pFile, buf uintptr, n int32, offset int64) int32 {
	g := &h.gathered
	follows, ends := offset == g.next && offset > 0, h.endsCommit(bytes(buf, n), offset)
	g.next = offset + int64(n)
	if !follows || g.n+n > gatherMost {
		if rc := h.flush(tls, pFile); rc != lib.SQLITE_OK {
			return rc
		}
	}
	if !follows || n > gatherMost {
		rc := call[xWrite](h.base.FxWrite)(tls, pFile, buf, n, offset)
		if rc == lib.SQLITE_OK {
			h.wroteLog(bytes(buf, n), offset)
		}
		return rc
	}
	if g.buf == 0 {
		if g.buf = libc.Xmalloc(tls, gatherMost); g.buf == 0 {
			return lib.SQLITE_NOMEM
		}
	}
	if g.n == 0 {
		g.at = offset
	}
	copy(bytes(g.buf+uintptr(g.n), n), bytes(buf, n))
	g.n += n
	g.parts = append(g.parts, n)
	if ends {
		return h.flush(tls, pFile)
	}
	return lib.SQLITE_OK
}

// endsCommit reports whether a piece is the page that ends a commit, as the head before it said.
func (h *handle) endsCommit(b []byte, offset int64) bool {
	g := &h.gathered
	if len(b) != walfile.FrameHead {
		return offset == g.end
	}
	g.end = 0
	if binary.BigEndian.Uint32(b[4:]) != 0 {
		g.end = offset + walfile.FrameHead
	}
	return false
}

// flush writes the gathered bytes. Bytes that could not be written are dropped: SQLite gets the error, and rolls the
// transaction back.
func (h *handle) flush(tls *libc.TLS, pFile uintptr) int32 {
	g := &h.gathered
	if g.n == 0 {
		return lib.SQLITE_OK
	}
	rc := call[xWrite](h.base.FxWrite)(tls, pFile, g.buf, g.n, g.at)
	if rc == lib.SQLITE_OK {
		b, offset := bytes(g.buf, g.n), g.at
		for _, n := range g.parts {
			h.wroteLog(b[:n], offset)
			b, offset = b[n:], offset+int64(n)
		}
	} else {
		g.next = 0
	}
	g.n, g.parts = 0, g.parts[:0]
	return rc
}
