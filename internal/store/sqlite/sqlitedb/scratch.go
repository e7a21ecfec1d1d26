package sqlitedb

import (
	"sync"

	"modernc.org/libc"
)

// scratch is the allocator's size class, a power of two, for the 10.9 KB that SQLite needs to redistribute the rows of one page of 4096
// bytes; cachePage is that of a page in SQLite's cache.
const (
	scratch   = 16 << 10
	cachePage = 8 << 10
)

// keepScratch keeps blocks of the C allocator in use. The allocator requests such blocks from the system a few at a time, and returns them
// as soon as none is used. Without this, each redistribution of rows would take four system calls and as many page faults.
var keepScratch = sync.OnceFunc(func() {
	tls := libc.NewTLS()
	defer tls.Close()
	for _, size := range []libc.Tsize_t{scratch, cachePage} {
		libc.Xmalloc(tls, size) // if memory is exhausted here, nothing else works either
	}
})
