package webpush

import "testing"

func TestPaddingNeverMakesAMessageTooLongForFirefoxOnAndroid(t *testing.T) {
	for plain := range MaxPayload + 1 {
		bare := headBytes + plain + 1 + tagBytes
		switch size := bodySize(plain); {
		case size < bare:
			t.Fatalf("%d bytes do not fit into a body of %d", plain, size)
		case bare <= constrained && size > constrained:
			t.Fatalf("%d bytes are padded to %d, more than the %d that every phone takes", plain, size, constrained)
		case bare > constrained && size != bare:
			t.Fatalf("%d bytes are padded to %d, which no phone asks for", plain, size)
		}
	}
}
