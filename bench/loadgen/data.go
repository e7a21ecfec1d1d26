package loadgen

import (
	"bytes"
	"strings"
)

// In a notification's data, stampMark precedes the time it was due: stampLen hex digits of nanoseconds.
const (
	stampMark = `"due":"`
	stampLen  = 16
	minData   = len(`{"due":"","pad":""}`) + stampLen
)

// makeData returns a notification's data, a JSON object of size bytes (at least minData), and the position of its stamp.
func makeData(size int) (data []byte, stampAt int) {
	pad := strings.Repeat("abcdefghijklmnopqrstuvwxyz012345", size/32+1)[:max(size-minData, 0)]
	data = []byte(`{` + stampMark + strings.Repeat("0", stampLen) + `","pad":"` + pad + `"}`)
	return data, 1 + len(stampMark)
}

const hexDigits = "0123456789abcdef"

// putStamp overwrites the stamp at the beginning of b with a time.
func putStamp(b []byte, t int64) {
	for i := stampLen - 1; i >= 0; i-- {
		b[i] = hexDigits[t&15]
		t >>= 4
	}
}

var stampMarkBytes = []byte(stampMark)

// findStamp returns the stamp in an encoded notification; 0: it has none.
func findStamp(b []byte) int64 {
	i := bytes.Index(b, stampMarkBytes)
	if i < 0 || len(b) < i+len(stampMark)+stampLen {
		return 0
	}
	var t int64
	for _, c := range b[i+len(stampMark):][:stampLen] {
		switch {
		case c >= '0' && c <= '9':
			t = t<<4 | int64(c-'0')
		case c >= 'a' && c <= 'f':
			t = t<<4 | int64(c-'a'+10)
		default:
			return 0
		}
	}
	return t
}

// All recipients' numbers have the same length, so a prepared request can be changed in place.
const numberLen = 7

func appendRecipient(dst []byte, prefix string, n int) []byte {
	dst = append(dst, prefix...)
	at := len(dst)
	dst = append(dst, "0000000"...)
	putNumber(dst[at:], n)
	return dst
}

func putNumber(b []byte, n int) {
	for i := numberLen - 1; i >= 0; i-- {
		b[i] = byte('0' + n%10)
		n /= 10
	}
}

// RecipientName returns the name of recipient n of a run.
func RecipientName(prefix string, n int) string { return string(appendRecipient(nil, prefix, n)) }
