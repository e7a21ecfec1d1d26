package session

import (
	"testing"
	"unsafe"
)

// An idle session is its struct and little else: if the struct grows, every server needs that much more memory per client.
func TestSessionFitsItsSizeClass(t *testing.T) {
	if size := unsafe.Sizeof(Session{}); size > 208 {
		t.Errorf("a session takes %d bytes, want at most 208: the next size class takes 224", size)
	}
}

// The side is the additional memory of a session with a named group.
func TestSideFitsItsSizeClass(t *testing.T) {
	if size := unsafe.Sizeof(side{}); size > 128 {
		t.Errorf("a side takes %d bytes, want at most 128: the next size class takes 144", size)
	}
}
