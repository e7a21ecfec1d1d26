package app

import (
	"runtime/debug"

	"godwit.dev/godwit/internal/server/config"
)

// tune applies the settings of the Go runtime and returns a function that reverts them.
func tune(c *config.Config) (undo func()) {
	limit, percent := int64(-1), c.GCPercent
	if c.MemoryLimit > 0 {
		limit = debug.SetMemoryLimit(int64(c.MemoryLimit))
	}
	if percent != 0 {
		percent = debug.SetGCPercent(percent)
	}
	return func() {
		if limit >= 0 {
			debug.SetMemoryLimit(limit)
		}
		if c.GCPercent != 0 {
			debug.SetGCPercent(percent)
		}
	}
}
