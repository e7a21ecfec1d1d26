// Package millis encodes times that may be missing, for stores: in milliseconds of Unix time, with 0
// for a missing time.
package millis

import "time"

// Of returns the stored form of a time.
func Of(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// Time returns the time of a stored value.
func Time(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}
