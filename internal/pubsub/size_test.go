package pubsub

import (
	"testing"
	"unsafe"
)

// What a session that subscribes to something costs besides its list of patterns.
func TestSubscriberFitsItsSizeClass(t *testing.T) {
	if size := unsafe.Sizeof(subscriber{}); size > 80 {
		t.Errorf("a subscriber takes %d bytes, want at most 80: the next size class takes 96", size)
	}
}
