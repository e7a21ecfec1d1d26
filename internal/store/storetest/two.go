package storetest

import (
	"sync"
	"testing"
	"time"
)

// Two opens two stores of one empty database for a test, as two servers would, or a server and the command line. Both
// tell the time by now and are closed by the test's clean-up. The suites then check that results are the same through
// both.
type Two[S any] func(t *testing.T, now func() time.Time) (a, b S)

// Alone is for databases that take one store at a time; why gives the reason.
func Alone[S any](why string) Two[S] {
	return func(t *testing.T, _ func() time.Time) (a, b S) {
		t.Helper()
		t.Skip("one store a database: " + why)
		return a, b
	}
}

// atOnce runs n turns of each of several callers at the same time.
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
