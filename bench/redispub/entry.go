package redispub

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Entry holds the values that a back end writes into a client's stream. Times are texts in the form that is written.
type Entry struct {
	ID, Category, Title, Body    string
	Show                         string
	EntityID, EntityType, Entity string // Entity is JSON
	CreatedAt, TTL               string
}

// Fields returns the names and values of the stream's entry, alternating.
func (e *Entry) Fields() []string {
	return []string{
		"entity.id", e.EntityID, "entity.type", e.EntityType, "entity.data", e.Entity, "id", e.ID, "category", e.Category,
		"title", e.Title, "body", e.Body, "show", e.Show, "created_at", e.CreatedAt, "ttl", e.TTL,
	}
}

// ISO formats a time as most back ends do.
func ISO(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// Haskell formats a time as Haskell's show does: up to twelve fractional digits, without trailing zeros. It adds picos to the time.
func Haskell(t time.Time, picos int) string {
	fraction := strings.TrimRight(fmt.Sprintf("%012d", t.Nanosecond()*1000+picos), "0")
	if fraction != "" {
		fraction = "." + fraction
	}
	return t.UTC().Format("2006-01-02 15:04:05") + fraction + " UTC"
}

// Shard returns the shard of a client: it adds the two halves of the UUID as 64-bit numbers, with wrap-around. A client that is not a UUID
// has shard 0.
func Shard(client string, shards int) int {
	id, err := hex.DecodeString(strings.ReplaceAll(client, "-", ""))
	if err != nil || len(id) != 16 || len(client) != 36 {
		return 0
	}
	return int((binary.BigEndian.Uint64(id[:8]) + binary.BigEndian.Uint64(id[8:])) % uint64(shards))
}

// Key returns the key of a client's stream.
func Key(client string, shards int) string {
	shard := Shard(client, shards)
	if parts := strings.Split(client, "-"); len(parts) == 4 {
		client = parts[0] + "-" + parts[1]
	}
	return "N" + client + "{" + strconv.Itoa(shard) + "}"
}

// tag returns the hash tag of a key, which determines its slot in a cluster.
func tag(key string) string {
	_, rest, _ := strings.Cut(key, "{")
	in, _, ok := strings.Cut(rest, "}")
	if !ok || in == "" {
		return key
	}
	return in
}
