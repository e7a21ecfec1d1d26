package quicgate_test

import (
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"godwit.dev/godwit/internal/gateway/quicgate"
)

// FuzzReadClose: however a close is cut into pieces, it reads the same, and its reason is short text.
func FuzzReadClose(f *testing.F) {
	end := tlv(closeKind, "\x00\x00\x01\x02bye")
	f.Add(tlv(0, end))
	f.Add(tlv(0, tlv(0x190b4d3d, "x")+end))
	f.Add(tlv(0x21, "grease") + tlv(0, end[:3]) + tlv(0, end[3:]))
	f.Add(tlv(0, tlv(closeKind, "\x00\x00\x00\x00\xff\xfe")))
	f.Fuzz(func(t *testing.T, in string) {
		code, why, err := quicgate.ReadClose(strings.NewReader(in))
		slowCode, slowWhy, slowErr := quicgate.ReadClose(iotest.OneByteReader(strings.NewReader(in)))
		if code != slowCode || why != slowWhy || (err == nil) != (slowErr == nil) {
			t.Errorf("at once: %d %q %v; byte by byte: %d %q %v", code, why, err, slowCode, slowWhy, slowErr)
		}
		if !utf8.ValidString(why) || len(why) > 3*1024 {
			t.Errorf("the reason is no short text: %q", why)
		}
		if err != nil && (code != 0 || why != "") {
			t.Errorf("a close that failed has the code %d and the reason %q", code, why)
		}
	})
}
