package websocket

import (
	"encoding/binary"
	"math/bits"
)

// unmask removes (or applies) the mask key from b, eight bytes at a time, and returns the key turned to the byte
// that follows b. Keys are in little-endian order: their lowest byte masks the first byte.
func unmask(b []byte, key uint32) uint32 {
	wide := uint64(key)<<32 | uint64(key)
	for len(b) >= 32 {
		binary.LittleEndian.PutUint64(b, binary.LittleEndian.Uint64(b)^wide)
		binary.LittleEndian.PutUint64(b[8:], binary.LittleEndian.Uint64(b[8:])^wide)
		binary.LittleEndian.PutUint64(b[16:], binary.LittleEndian.Uint64(b[16:])^wide)
		binary.LittleEndian.PutUint64(b[24:], binary.LittleEndian.Uint64(b[24:])^wide)
		b = b[32:]
	}
	for len(b) >= 8 {
		binary.LittleEndian.PutUint64(b, binary.LittleEndian.Uint64(b)^wide)
		b = b[8:]
	}
	for i := range b {
		b[i] ^= byte(key)
		key = bits.RotateLeft32(key, -8)
	}
	return key
}
