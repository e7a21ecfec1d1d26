package backend

import (
	"math"
	"testing"
)

func TestBatchesTakeAPartOfTheMemoryThereIs(t *testing.T) {
	for limit, want := range map[int64]int64{
		math.MaxInt64: maxBatchMemory, 16 << 30: maxBatchMemory, 256 << 20: 64 << 20, 128 << 20: 32 << 20, 64 << 20: MaxBatchBytes, 0: MaxBatchBytes,
	} {
		if got := batchMemory(limit); got != want {
			t.Errorf("under %d bytes batches may take %d, want %d", limit, got, want)
		}
	}
}
