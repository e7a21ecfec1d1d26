package redisstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// Inspection describes the examined part of a Redis to which a notification service's publishers write.
type Inspection struct {
	Version string   // of Redis
	Masters []string // addresses
	Cluster bool
	Finding string // best available way to find new entries
	Partial bool   // more streams exist than were examined

	Streams   int // that were found
	Misplaced int // those whose shard is not their client's
	Example   string
	Fits      []int // shard counts, powers of two, with which no stream would be misplaced

	Entries int // the oldest of each stream
	Orphans int // those of them that expired more than a minute ago
	Poison  int // those of them that are no notification and not in quarantine yet
	Wrong   error

	Quarantined map[int]int // entries in quarantine, by shard
}

const (
	inspectStreams = 10_000 // that are looked into
	inspectEntries = 100    // of each, the oldest
	inspectWithin  = 30 * time.Second
	inspectChunk   = 200     // streams read together
	mostShards     = 1 << 14 // a cluster has no more slots
)

// Inspect examines a Redis without changing anything there, for half a minute at most.
func Inspect(ctx context.Context, urls []string, shards int) (*Inspection, error) {
	l, err := dial(ctx, urls)
	if err != nil {
		return nil, err
	}
	defer l.close()
	f := &finder{link: l, log: slog.New(slog.DiscardHandler)}
	if err := f.choose(ctx); err != nil {
		return nil, err
	}
	t, err := l.topology(ctx)
	if err != nil {
		return nil, err
	}
	in := &Inspection{Masters: t.masters, Cluster: l.cluster, Finding: f.way, Quarantined: make(map[int]int)}
	if in.Version, err = l.version(ctx); err != nil {
		return nil, err
	}
	for n := 1; n <= mostShards; n *= 2 {
		in.Fits = append(in.Fits, n)
	}
	ctx, cancel := context.WithTimeout(ctx, inspectWithin)
	defer cancel()
	for _, master := range t.masters {
		err := l.scan(ctx, master, scanRate, func(ctx context.Context, keys []string) error { return in.look(ctx, l, keys, shards) })
		switch {
		case errors.Is(err, errEnough) || ctx.Err() != nil:
			in.Partial = true
		case err != nil:
			return nil, err
		}
	}
	return in, in.countQuarantine(context.WithoutCancel(ctx), l, shards)
}

// errEnough ends a scan.
var errEnough = errors.New("enough was looked at")

// look examines the oldest entries of some streams.
func (in *Inspection) look(ctx context.Context, l *link, keys []string, shards int) error {
	for part := range slices.Chunk(keys, inspectChunk) {
		asked := make([]rueidis.Completed, len(part))
		for i, key := range part {
			asked[i] = l.rangeFrom(key, EntryID{}, inspectEntries)
		}
		one, done := context.WithTimeoutCause(ctx, callWithin, fmt.Errorf("no answer from Redis in %s", callWithin))
		answers := l.main.DoMulti(one, asked...)
		done()
		for i, answer := range answers {
			found, err := entriesOf(answer)
			if err != nil {
				return fmt.Errorf("read stream %s: %w", part[i], err)
			}
			if len(found) > 0 { // otherwise the key is no stream, or an empty one
				in.count(part[i], found, shards)
			}
		}
		if in.Streams >= inspectStreams {
			return errEnough
		}
	}
	return nil
}

func (in *Inspection) count(key string, found []raw, shards int) {
	in.Streams++
	client, shard, _ := ClientOf(key)
	if shard != ShardOf(client, shards) && shard != wideShardOf(client, shards) {
		in.Misplaced++
		if in.Example == "" {
			in.Example = key
		}
	}
	in.Fits = slices.DeleteFunc(in.Fits, func(n int) bool { return ShardOf(client, n) != shard })
	for _, r := range found {
		in.Entries++
		e, err := ParseEntry(key, r.id, r.fields)
		switch {
		case err != nil:
			in.Poison++
			if in.Wrong == nil {
				in.Wrong = err
			}
		case time.Since(e.ExpiresAt) > orphanAfter:
			in.Orphans++
		}
	}
}

// countQuarantine counts the entries that were set aside.
func (in *Inspection) countQuarantine(ctx context.Context, l *link, shards int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, callWithin, fmt.Errorf("no answer from Redis in %s", callWithin))
	defer cancel()
	asked := make([]rueidis.Completed, min(max(shards, 1), mostShards))
	for shard := range asked {
		asked[shard] = l.main.B().Xlen().Key(quarantine + "{" + strconv.Itoa(shard) + "}").Build()
	}
	for shard, answer := range l.main.DoMulti(ctx, asked...) {
		n, err := answer.AsInt64()
		if err != nil {
			return fmt.Errorf("count what is in quarantine: %w", err)
		}
		if n > 0 {
			in.Quarantined[shard] = int(n)
		}
	}
	return nil
}

// version reads the version of Redis.
func (l *link) version(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, callWithin, fmt.Errorf("no answer from Redis in %s", callWithin))
	defer cancel()
	info, err := l.main.Do(ctx, l.main.B().Info().Section("server").Build()).ToString()
	if err != nil {
		return "", fmt.Errorf("ask Redis for its version: %w", err)
	}
	_, after, _ := strings.Cut(info, "redis_version:")
	v, _, _ := strings.Cut(after, "\r\n")
	return v, nil
}
