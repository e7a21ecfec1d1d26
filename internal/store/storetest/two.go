package storetest

import (
	"sync"
	"testing"
	"time"
)

// Two opens two stores of one empty database for a test, like two servers, or a server and the command line. Both use the clock now, and
// the test's cleanup closes them. The suites then check that both give the same results.
type Two[S any] func(t *testing.T, now func() time.Time) (a, b S)

// Alone is the Two of databases that allow one store at a time; it skips the test with the reason why.
func Alone[S any](why string) Two[S] {
	return func(t *testing.T, _ func() time.Time) (a, b S) {
		t.Helper()
		t.Skip("one store a database: " + why)
		return a, b
	}
}

// atOnce runs n turns of each of several concurrent callers.
func atOnce(callers, n int, do func(caller, nth int)) {
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for i := range n {
				do(c, i)
			}
		})
	}
	wg.Wait()
}
