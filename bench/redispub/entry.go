package redispub

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Entry is what a back end writes into a client's stream. Times are in the form in which they are written.
type Entry struct {
	ID, Category, Title, Body    string
	Show                         string
	EntityID, EntityType, Entity string // Entity is JSON
	CreatedAt, TTL               string
}

// Fields are the names and values of the stream's entry.
func (e *Entry) Fields() []string {
	return []string{
		"entity.id", e.EntityID, "entity.type", e.EntityType, "entity.data", e.Entity, "id", e.ID, "category", e.Category,
		"title", e.Title, "body", e.Body, "show", e.Show, "created_at", e.CreatedAt, "ttl", e.TTL,
	}
}

// ISO writes a time as most back ends do.
func ISO(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// Haskell writes a time as Haskell's show does: up to twelve digits of a fraction, without zeros at its end. picos are added to it.
func Haskell(t time.Time, picos int) string {
	fraction := strings.TrimRight(fmt.Sprintf("%012d", t.Nanosecond()*1000+picos), "0")
	if fraction != "" {
		fraction = "." + fraction
	}
	return t.UTC().Format("2006-01-02 15:04:05") + fraction + " UTC"
}

// Shard is the shard of a client: the two halves of its UUID are added as numbers of 64 bits, with wrap-around; the shard of a client that
// is no UUID is 0.
func Shard(client string, shards int) int {
	id, err := hex.DecodeString(strings.ReplaceAll(client, "-", ""))
	if err != nil || len(id) != 16 || len(client) != 36 {
		return 0
	}
	return int((binary.BigEndian.Uint64(id[:8]) + binary.BigEndian.Uint64(id[8:])) % uint64(shards))
}

// Key is the stream of a client.
func Key(client string, shards int) string {
	shard := Shard(client, shards)
	if parts := strings.Split(client, "-"); len(parts) == 4 {
		client = parts[0] + "-" + parts[1]
	}
	return "N" + client + "{" + strconv.Itoa(shard) + "}"
}

// tag is the part of a key that says in which slot of a cluster it is.
func tag(key string) string {
	_, rest, _ := strings.Cut(key, "{")
	in, _, ok := strings.Cut(rest, "}")
	if !ok || in == "" {
		return key
	}
	return in
}
