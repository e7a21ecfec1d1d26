package object

import (
	"math"
	"strconv"

	"godwit.dev/godwit/internal/notify/notification"
)

// Version is a version of an object, from 1 to 2^63-1. 0 means no version.
type Version int64

// MaxVersion is the last one.
const MaxVersion Version = math.MaxInt64

func (v Version) String() string { return strconv.FormatInt(int64(v), 10) }

// ParseVersion reads a version in JSON or in a query: decimal digits, in quotes or not.
func ParseVersion(s string) (Version, error) {
	if len(s) >= 2 && s[0] == '"' && s[len(s)-1] == '"' {
		s = s[1 : len(s)-1]
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 1 || s[0] < '1' || s[0] > '9' { // without a sign or leading zero, so that each version has one spelling
		return 0, notification.BadField("version", "must be a whole number from 1 to 2^63-1, as a string or a number")
	}
	return Version(n), nil
}
