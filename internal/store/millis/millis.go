// Package millis is how stores keep a time that may be missing: in milliseconds, of which 0 is none.
package millis

import "time"

// Of is what is stored of a time.
func Of(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// Time is the time that was stored.
func Time(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}
