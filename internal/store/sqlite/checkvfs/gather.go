package checkvfs

import (
	"encoding/binary"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"

	"godwit.dev/godwit/internal/store/sqlite/walfile"
)

// gatherMost is the most bytes of a log that one system call writes, several times a typical commit.
const gatherMost = 64 << 10

// gathered holds the bytes that a connection has written to the end of its log and that are not in the file yet. SQLite writes each frame's
// header and page separately. They are written to the file together: at the latest with the page that ends a commit, before SQLite shows it
// to readers, and before the log is synced, read or truncated through the same connection.
type gathered struct {
	buf   uintptr // buffer of gatherMost bytes; 0: nothing was gathered yet
	n     int32
	at    int64   // of the first byte
	parts []int32 // length of each piece, as SQLite wrote them
	next  int64   // end of the last write
	end   int64   // offset of the page that ends a commit; 0: the last header was that of another page
}

// writeLog writes to a log, or gathers writes. It gathers only writes that continue the last one: frames that replace others need not end
// with a page.
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

// endsCommit reports whether a piece is the page that ends a commit, according to the header before it.
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

// flush writes the gathered bytes. If that fails they are dropped: SQLite gets the error and rolls the transaction back.
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
