package meter

import (
	"fmt"
	"os"
	"slices"
	"time"
)

// Disk is the time that a disk needs for a durable write: no durable server can be faster.
type Disk struct {
	P50 float64 `json:"fsync_p50_ms"`
	P99 float64 `json:"fsync_p99_ms"`
	Max float64 `json:"fsync_max_ms"`
}

// How the disk is measured: small writes one after the other within a file of fixed size, as in a store's log.
const (
	probeFile   = 1 << 20
	probeWrite  = 16 << 10
	probes      = 250
	longest     = time.Second
	probesPause = 2 * time.Millisecond // as a store has other work between writes
)

// probe measures the disk that holds dir; an empty dir means the system's folder for temporary files.
func probe(dir string) *Disk {
	f, err := os.CreateTemp(dir, "godwit-bench-disk-")
	if err != nil {
		return nil
	}
	defer func() {
		_ = f.Close()
		_ = os.Remove(f.Name())
	}()
	if _, err := f.Write(make([]byte, probeFile)); err != nil {
		return nil
	}
	if err := f.Sync(); err != nil {
		return nil
	}
	var took []float64
	data := make([]byte, probeWrite)
	for begun := time.Now(); len(took) < probes && time.Since(begun) < longest; time.Sleep(probesPause) {
		at := time.Now()
		if _, err := f.WriteAt(data, int64(len(took)*probeWrite%probeFile)); err != nil {
			return nil
		}
		if err := syncData(f); err != nil {
			return nil
		}
		took = append(took, float64(time.Since(at))/float64(time.Millisecond))
	}
	slices.Sort(took)
	n := len(took)
	return &Disk{P50: took[n/2], P99: took[n*99/100], Max: took[n-1]}
}

func (d *Disk) String() string {
	return fmt.Sprintf("fsync p50 %.2f ms, p99 %.2f ms, at most %.2f ms", d.P50, d.P99, d.Max)
}
