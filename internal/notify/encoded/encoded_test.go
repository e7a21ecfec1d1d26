package encoded

import (
	"sync"
	"testing"
)

func TestTheFirstEncodingOfAFormatIsSharedByAll(t *testing.T) {
	var f Forms
	var keys [5]Key
	got := make([][]byte, 64)
	var wg sync.WaitGroup
	for i := range got {
		wg.Go(func() { got[i] = f.Add(&keys[i%4], []byte{byte(i % 4)}) })
	}
	wg.Wait()
	for i, b := range got {
		if kept := f.Get(&keys[i%4]); &kept[0] != &b[0] || b[0] != byte(i%4) {
			t.Errorf("format %d: %v was added and %v is kept", i%4, b, kept)
		}
	}
	if b := f.Get(&keys[4]); b != nil {
		t.Errorf("a format that nobody added gives %v", b)
	}
}
