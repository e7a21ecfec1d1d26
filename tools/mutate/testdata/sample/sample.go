// Package sample is what the tool is tested on.
package sample

import "errors"

var errOdd = errors.New("odd")

// Half is tested.
func Half(n int) (int, error) {
	if n%2 != 0 {
		return 0, errOdd
	}
	if n > 100 {
		return 50, nil // twice this is 100 as well: no test can tell > from >=
	}
	return n / 2, nil
}

// Query is tested.
func Query(all bool) string {
	if all {
		return "SELECT 1"
	}
	return "SELECT 1 FROM t WHERE app = ?"
}

// Untested has no test.
func Untested(a, b int) bool {
	if a < b && len("x") <= b {
		return true
	}
	return false
}
