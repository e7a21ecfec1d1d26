//go:build !unix

// Package disk knows how full disks are.
package disk

import "math"

// Free does not know here: there is room until the disk is really full.
func Free(string) (int64, error) { return math.MaxInt64, nil }
