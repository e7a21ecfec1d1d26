package memory

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// When the process returns memory to the system. The garbage of a storm of connections is larger than the sessions that remain. The runtime
// alone would keep it for minutes, because an idle server does not collect.
const (
	trimEvery = 5 * time.Second
	trimAfter = 8 << 20 // bytes allocated since the last trim; for less, a collection is not worthwhile
	trimQuiet = 1 << 20 // bytes allocated in one interval; the server is quiet below this
)

// trimmer decides when to trim by the number of bytes allocated so far.
type trimmer struct {
	last    uint64 // at the last look
	trimmed uint64 // at the last trim
}

// due reports whether a burst is over and memory should be returned.
func (t *trimmer) due(allocated uint64) bool {
	quiet := allocated-t.last < trimQuiet
	t.last = allocated
	if !quiet || allocated-t.trimmed < trimAfter {
		return false
	}
	t.trimmed = allocated
	return true
}

// Trim returns memory to the system after bursts, until ctx ends. It trims the stores' caches first.
func Trim(ctx context.Context, stores ...interface{ Trim() }) error {
	tk := time.NewTicker(trimEvery)
	defer tk.Stop()
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	var t trimmer
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tk.C:
		}
		metrics.Read(sample)
		if t.due(sample[0].Value.Uint64()) {
			for _, s := range stores {
				s.Trim()
			}
			debug.FreeOSMemory()
		}
	}
}
