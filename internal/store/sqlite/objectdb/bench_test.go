package objectdb_test

import (
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"godwit.dev/godwit/internal/objects/object"
	"godwit.dev/godwit/internal/objects/object/objectstore"
	"godwit.dev/godwit/internal/store/sqlite/objectdb"
)

// BenchmarkSave stores a device's fifty registrations, for 10,000 devices in turn: first new ones, then over existing ones.
func BenchmarkSave(b *testing.B) {
	s, err := objectdb.Open(b.Context(), filepath.Join(b.TempDir(), "objects.db"), config())
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	const devices, together = 10_000, 500
	keys := make([]object.Key, 50)
	for i := range keys {
		keys[i] = object.Key{Group: "north", Object: fmt.Sprintf("object-%d", i)}
	}
	ids := make([]objectstore.ClientID, devices)
	for i := range ids {
		ids[i] = objectstore.ClientID{App: "demo", Recipient: fmt.Sprintf("unit-%06d", i), Group: "north", Device: "main"}
	}
	b.ReportAllocs()
	var wg sync.WaitGroup
	n := 0
	for b.Loop() {
		wg.Add(1)
		s.Save(&objectstore.Save{ID: ids[n%devices], Keys: keys, SeenAt: time.Unix(int64(n), 0), Done: func(err error) {
			if err != nil {
				b.Error(err)
			}
			wg.Done()
		}})
		if n++; n%together == 0 {
			wg.Wait()
		}
	}
	wg.Wait()
}
