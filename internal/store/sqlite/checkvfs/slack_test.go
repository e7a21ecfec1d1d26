package checkvfs

import (
	stdbytes "bytes"
	"encoding/binary"
	"testing"
)

// leaf returns a page of a table with cells at its end, preceded by remains of deleted cells.
func leaf(size int, cells ...string) []byte {
	p := stdbytes.Repeat([]byte("old!"), size/4)
	p[0] = leafTable
	binary.BigEndian.PutUint16(p[3:], uint16(len(cells)))
	end := size
	for i, c := range cells {
		end -= len(c)
		copy(p[end:], c)
		binary.BigEndian.PutUint16(p[leafHead+2*i:], uint16(end))
	}
	binary.BigEndian.PutUint16(p[5:], uint16(end))
	return p
}

func TestUnusedRoomOfAPageIsCleared(t *testing.T) {
	p := leaf(1024, "first", "second")
	clearSlack(p, 1024)
	if stdbytes.Contains(p, []byte("old")) || !stdbytes.HasSuffix(p, []byte("secondfirst")) || binary.BigEndian.Uint16(p[leafHead+2:]) != 1024-11 {
		t.Errorf("%q", p)
	}
	for what, spoil := range map[string]func(p []byte){
		"that begins with another's number": func(p []byte) { p[0] = 0 },
		"whose cells are elsewhere":         func(p []byte) { binary.BigEndian.PutUint16(p[leafHead:], 100) },
		"with more cells than room":         func(p []byte) { binary.BigEndian.PutUint16(p[3:], 60000) },
		"with its cells behind its end":     func(p []byte) { binary.BigEndian.PutUint16(p[5:], 2000) },
	} {
		p := leaf(1024, "first")
		spoil(p)
		want := stdbytes.Clone(p)
		if clearSlack(p, 1024); !stdbytes.Equal(p, want) {
			t.Errorf("a page %s is changed", what)
		}
	}
	p = leaf(1024, "first")
	want := stdbytes.Clone(p)
	if clearSlack(p, slackMost); !stdbytes.Equal(p, want) {
		t.Error("a page of a huge file is changed")
	}
}
