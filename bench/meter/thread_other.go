//go:build !linux

package meter

import "time"

var begun = time.Now()

// Thread returns a time that passes as long as the calling thread runs: here all time.
func Thread() time.Duration { return time.Since(begun) }
