package memory

import "runtime/metrics"

// InUse returns the number of bytes that the Go runtime has obtained from the system and not returned.
func InUse() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64() - s[1].Value.Uint64()
}
