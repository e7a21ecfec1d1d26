package move

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"math"
)

// digest is the number of rows and the sum of their hashes, which does not depend on their order.
type digest struct {
	n   int64
	sum [2]uint64
}

// add adds a row, with columns in the form common to both databases.
func (d *digest) add(row []any) {
	h := sha256.New()
	for _, v := range row {
		hashValue(h, v)
	}
	sum := h.Sum(nil)
	d.n++
	d.sum[0] += binary.BigEndian.Uint64(sum)
	d.sum[1] += binary.BigEndian.Uint64(sum[8:])
}

// hashValue hashes equal numbers alike, whatever their size in bytes, and a boolean like the number 0 or 1.
func hashValue(h hash.Hash, v any) {
	var kind byte
	var b []byte
	switch v := v.(type) {
	case nil:
		kind = 'n'
	case string:
		kind, b = 't', []byte(v)
	case []byte:
		kind, b = 'b', v
	case float64:
		kind, b = 'f', binary.BigEndian.AppendUint64(nil, math.Float64bits(v))
	default:
		kind, b = 'i', binary.BigEndian.AppendUint64(nil, uint64(integer(v)))
	}
	h.Write(binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(b)))) // a column's bytes
	h.Write(b)
}

func integer(v any) int64 {
	switch v := v.(type) {
	case int64:
		return v
	case int32:
		return int64(v)
	case int16:
		return int64(v)
	case bool:
		if v {
			return 1
		}
		return 0
	}
	panic(fmt.Sprintf("a column of type %T", v)) // no table has one
}

func (d *digest) hex() string {
	b := binary.BigEndian.AppendUint64(nil, d.sum[0])
	return hex.EncodeToString(binary.BigEndian.AppendUint64(b, d.sum[1]))
}

func (d *digest) String() string { return fmt.Sprintf("%d, digest %s", d.n, d.hex()) }
