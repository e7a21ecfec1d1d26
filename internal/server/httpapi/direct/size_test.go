package direct

import (
	"testing"
	"unsafe"
)

func TestIdleConnectionIsSmall(t *testing.T) {
	if size := unsafe.Sizeof(conn{}); size > 64 {
		t.Errorf("a connection takes %d bytes here, want at most 64", size)
	}
}
