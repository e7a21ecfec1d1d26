//go:build !unix

// Package disk measures the free space of disks.
package disk

import "math"

// Free cannot measure this system's disks: it reports that there is room.
func Free(string) (int64, error) { return math.MaxInt64, nil }
