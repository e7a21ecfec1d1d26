package pubsub

import (
	"testing"
	"unsafe"
)

// A subscriber is the memory of a session's subscriptions without its list of patterns.
func TestSubscriberFitsItsSizeClass(t *testing.T) {
	if size := unsafe.Sizeof(subscriber{}); size > 80 {
		t.Errorf("a subscriber takes %d bytes, want at most 80: the next size class takes 96", size)
	}
}
