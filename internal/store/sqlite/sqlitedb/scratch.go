package sqlitedb

import (
	"sync"

	"modernc.org/libc"
)

// scratch is the allocator's size class, a power of two, of the 10.9 KB that SQLite needs to share the rows of one page of 4096
// bytes out anew; cachePage is that of a page in SQLite's cache.
const (
	scratch   = 16 << 10
	cachePage = 8 << 10
)

// keepScratch keeps blocks of the C allocator in use. It takes such blocks from the system a few at a time, and gives them back as
// soon as none of them is used: four system calls and as many page faults, each time rows are shared out.
var keepScratch = sync.OnceFunc(func() {
	tls := libc.NewTLS()
	defer tls.Close()
	for _, size := range []libc.Tsize_t{scratch, cachePage} {
		libc.Xmalloc(tls, size) // without memory there is none for anything else either
	}
})
