package objectdb_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"godwit.dev/godwit/internal/objects/object"
	"godwit.dev/godwit/internal/objects/object/objectstore"
	"godwit.dev/godwit/internal/store/postgres/objectdb"
	"godwit.dev/godwit/internal/store/postgres/pgtest"
)

func benchmarked(b *testing.B) *objectdb.Store {
	b.Helper()
	s, err := objectdb.Open(b.Context(), objectdb.Config{URL: pgtest.Start(b, pgtest.Options{Fsync: true}).URL()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	return s
}

// BenchmarkPut writes payloads of 200 bytes to 1,000 objects in turn, from 1 and from 64 concurrent callers.
func BenchmarkPut(b *testing.B) {
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprintf("%d callers", callers), func(b *testing.B) {
			s := benchmarked(b)
			var next atomic.Int64
			payload := make([]byte, 200)
			b.ResetTimer()
			var wg sync.WaitGroup
			for range callers {
				wg.Go(func() {
					for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
						p := &objectstore.Put{App: "demo", Key: object.Key{Group: "north", Object: fmt.Sprint("o", n%1000)}, Put: object.Put{Payload: payload}, At: time.Now()}
						if err := s.Put(b.Context(), []*objectstore.Put{p}); err != nil {
							b.Error(err)
						}
					}
				})
			}
			wg.Wait()
		})
	}
}

// BenchmarkTouch writes the progress of 10,000 devices with fifty registrations each, as stored acknowledgements do. hot is the share of
// updates that touched no index.
func BenchmarkTouch(b *testing.B) {
	s := benchmarked(b)
	const devices = 10_000
	keys := make([]object.Key, 50)
	progress := make([]objectstore.Progress, len(keys))
	for i := range keys {
		keys[i] = object.Key{Group: "north", Object: fmt.Sprintf("object-%d", i)}
		progress[i] = objectstore.Progress{Object: keys[i].Hash(), Acked: 1, Sent: 1}
	}
	touches := make([]objectstore.Touch, devices)
	var saved sync.WaitGroup
	for i := range touches {
		id := objectstore.ClientID{App: "demo", Recipient: fmt.Sprintf("unit-%06d", i), Group: "north", Device: "main"}
		touches[i] = objectstore.Touch{ID: id, Progress: progress}
		saved.Add(1)
		s.Save(&objectstore.Save{ID: id, Keys: keys, SeenAt: time.Now(), Done: func(err error) {
			if err != nil {
				b.Error(err)
			}
			saved.Done()
		}})
	}
	saved.Wait()
	for b.Loop() {
		for i := range touches {
			touches[i].SeenAt = time.Now()
		}
		done := make(chan error, 1)
		s.Touch(touches, func(err error) { done <- err })
		if err := <-done; err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/devices, "ns/device")
	var all, hot float64
	err := s.DB().Pool().QueryRow(b.Context(), "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'progress'").Scan(&all, &hot)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(hot/all, "hot")
}
