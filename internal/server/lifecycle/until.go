package lifecycle

import (
	"context"
	"sync"
)

// Until makes a context that ends with ctx, or when stopping is closed. The caller calls end when it no longer needs the context.
func Until(ctx context.Context, stopping <-chan struct{}) (until context.Context, end func()) {
	until, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case <-stopping:
			cancel()
		case <-until.Done():
		}
	})
	return until, func() {
		cancel()
		wg.Wait()
	}
}
