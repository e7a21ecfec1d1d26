package bus

import "sync/atomic"

// counts are kept as plain atomics and read when metrics are scraped.
type counts struct {
	received, refused, dropped atomic.Uint64
}
