package pushgate

import (
	"testing"
	"unsafe"
)

func TestIdleConnectionIsSmall(t *testing.T) {
	if size := unsafe.Sizeof(conn{}); size > 128 {
		t.Errorf("a connection takes %d bytes here, want at most 128", size)
	}
}
