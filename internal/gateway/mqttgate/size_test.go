package mqttgate

import (
	"testing"
	"unsafe"
)

// An idle connection costs little besides its session and the reactor's part.
func TestIdleConnectionIsSmall(t *testing.T) {
	if size := unsafe.Sizeof(conn{}); size > 48 {
		t.Errorf("a connection has %d bytes, want 48: the next size is 64", size)
	}
}
