package wsgate

import (
	"testing"
	"unsafe"
)

func TestIdleConnectionIsSmall(t *testing.T) {
	if size := unsafe.Sizeof(conn{}); size > 96 {
		t.Errorf("a connection takes %d bytes here, want at most 96", size)
	}
}
