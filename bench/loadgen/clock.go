package loadgen

import "time"

// anchor ties Go's clock, which is cheap to read, to the monotonic clock that all processes share.
var anchor = func() (a struct {
	at     time.Time
	shared int64
},
) {
	a.shared, a.at = clockNow(), time.Now()
	return a
}()

// Now returns the time in nanoseconds on the clock that all processes of this machine share.
func Now() int64 { return anchor.shared + int64(time.Since(anchor.at)) }
