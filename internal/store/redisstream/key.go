package redisstream

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"
)

// prefix begins the key of every client's stream, and, as tokenPrefix, that of every token.
const (
	prefix      = "N"
	tokenPrefix = "NS:"
)

// ShardOf returns the shard of a client's stream: for a UUID the sum of its two halves modulo shards, for other names 0. Publishers add
// with wrap-around, and the replaced service does not. Both agree if shards is a power of two; otherwise strays moves the entries of the
// other stream to the publishers'.
func ShardOf(client string, shards int) int {
	hi, lo, ok := halves(client)
	if !ok || shards < 1 {
		return 0
	}
	return int((hi + lo) % uint64(shards))
}

// otherKey is the key of a client's stream for publishers that add the halves without wrap-around. It is empty if Key is the same.
func otherKey(client string, shards int) string {
	other := wideShardOf(client, shards)
	if other == ShardOf(client, shards) {
		return ""
	}
	return prefix + Recipient(client) + "{" + strconv.Itoa(other) + "}"
}

// wideShardOf is ShardOf with a sum of 128 bits.
func wideShardOf(client string, shards int) int {
	hi, lo, ok := halves(client)
	if !ok || shards < 1 {
		return 0
	}
	sum, carry := bits.Add64(hi, lo, 0)
	return int(bits.Rem64(carry, sum, uint64(shards)))
}

// halves parses a UUID in its usual form, in upper or lower case.
func halves(s string) (hi, lo uint64, ok bool) {
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return 0, 0, false
	}
	var b [16]byte
	at := 0
	for _, part := range [...]string{s[:8], s[9:13], s[14:18], s[19:23], s[24:]} {
		n, err := hex.Decode(b[at:], []byte(part))
		if err != nil {
			return 0, 0, false
		}
		at += n
	}
	return binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:]), true
}

// Recipient returns the name under which a client has its stream and its sessions: an id of exactly four parts is cut to its first two, so
// clients with the same two share a stream.
func Recipient(client string) string {
	if strings.Count(client, "-") != 3 {
		return client
	}
	first := strings.IndexByte(client, '-')
	return client[:first+1+strings.IndexByte(client[first+1:], '-')]
}

// Key returns the key of a client's stream.
func Key(client string, shards int) string {
	return prefix + Recipient(client) + "{" + strconv.Itoa(ShardOf(client, shards)) + "}"
}

// ClientOf splits a stream's key into client and shard; ok is false if it is no such key.
func ClientOf(key string) (client string, shard int, ok bool) {
	if !strings.HasPrefix(key, prefix) || strings.HasPrefix(key, tokenPrefix) || !strings.HasSuffix(key, "}") {
		return "", 0, false
	}
	open := strings.LastIndexByte(key, '{')
	if open <= len(prefix) {
		return "", 0, false
	}
	digits := key[open+1 : len(key)-1]
	n, err := strconv.ParseUint(digits, 10, 31)
	if err != nil || strconv.FormatUint(n, 10) != digits {
		return "", 0, false
	}
	return key[len(prefix):open], int(n), true
}

// EntryID is the id of an entry of a stream: when it was added, in milliseconds, and a count within them.
type EntryID struct{ Ms, Seq uint64 }

// ParseEntryID reads an id as Redis writes it.
func ParseEntryID(s string) (EntryID, error) {
	ms, seq, ok := strings.Cut(s, "-")
	a, err := strconv.ParseUint(ms, 10, 64)
	b, err2 := strconv.ParseUint(seq, 10, 64)
	if !ok || err != nil || err2 != nil {
		return EntryID{}, fmt.Errorf("%q is no id of a stream's entry", s)
	}
	return EntryID{a, b}, nil
}

func (e EntryID) String() string {
	b := make([]byte, 0, 24)
	b = strconv.AppendUint(b, e.Ms, 10)
	b = append(b, '-')
	return string(strconv.AppendUint(b, e.Seq, 10))
}

// Compare is negative if e comes before o.
func (e EntryID) Compare(o EntryID) int {
	switch {
	case e == o:
		return 0
	case e.Ms < o.Ms || e.Ms == o.Ms && e.Seq < o.Seq:
		return -1
	}
	return 1
}

// next returns the id after e. Redis never assigns the highest id, which has no successor.
func (e EntryID) next() EntryID {
	if e.Seq == math.MaxUint64 {
		return EntryID{e.Ms + 1, 0}
	}
	return EntryID{e.Ms, e.Seq + 1}
}
