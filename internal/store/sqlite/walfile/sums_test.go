package walfile

import (
	"encoding/binary"
	"testing"
)

// A log has the byte order of the machine that created it.
func TestChecksumsAreTheSameInBothOrders(t *testing.T) {
	for _, words := range [][]uint32{{}, {1, 2}, {1, 2, 3, 1 << 31}} {
		var big, little []byte
		for _, w := range words {
			big, little = binary.BigEndian.AppendUint32(big, w), binary.LittleEndian.AppendUint32(little, w)
		}
		want := sums{7, 9}
		for i := 0; i < len(words); i += 2 {
			want[0] += words[i] + want[1]
			want[1] += words[i+1] + want[0]
		}
		if b, l := (sums{7, 9}).add(binary.BigEndian, big), (sums{7, 9}).add(binary.LittleEndian, little); b != want || l != want {
			t.Errorf("%d: %d and %d, want %d", words, b, l, want)
		}
	}
}
