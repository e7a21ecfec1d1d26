// Package pause waits between tries.
package pause

import (
	"context"
	"time"
)

// For waits for d, or until ctx ends. It returns false if ctx has ended.
func For(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
