package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"godwit.dev/godwit/internal/store/redisstream"
)

// compatWithin limits the check of Redis.
const compatWithin = time.Minute

// compat checks the Redis of the service that this server replaces, if there is one.
func (d *doctor) compat(ctx context.Context) []finding {
	if !d.c.CompatOn() {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, compatWithin, fmt.Errorf("the look at Redis took more than %s", compatWithin))
	defer cancel()
	in, err := redisstream.Inspect(ctx, d.c.RedisURLs(), d.c.MaxShards)
	if err != nil {
		return []finding{{Check: "Redis", Detail: err.Error(), Hint: "is it running, and does --redis name it with its user and password?"}}
	}
	return []finding{foundRedis(in), foundFinding(in), foundShards(in, d.c.MaxShards), foundOrphans(in), foundPoison(in)}
}

func foundRedis(in *redisstream.Inspection) finding {
	f := finding{Check: "Redis", OK: true, Detail: fmt.Sprintf("version %s at %s", in.Version, in.Masters[0])}
	if in.Cluster {
		f.Detail = fmt.Sprintf("version %s, a cluster with the masters %s", in.Version, strings.Join(in.Masters, " "))
	}
	return f
}

// foundFinding reports the means by which new entries are found.
func foundFinding(in *redisstream.Inspection) finding {
	f := finding{Check: "new entries", OK: true}
	switch in.Finding {
	case redisstream.ByTracking:
		f.Detail = "tracking: Redis tells which streams change (CLIENT TRACKING)"
	case redisstream.ByKeyspace:
		f.Detail = "keyspace: Redis publishes what happens to keys (notify-keyspace-events)"
		f.Hint = "Redis 6 or later tells of them at a lower price, by client tracking, if the user may call it"
	default:
		f.Detail = "poll: streams of connected clients are read every second, unless publishers announce entries on active-notification"
		f.Hint = "use Redis 6 or later and let the user call CLIENT TRACKING, or set notify-keyspace-events to Kt"
	}
	return f
}

// foundShards compares the configured number of shards with the existing keys.
func foundShards(in *redisstream.Inspection, shards int) finding {
	f := finding{Check: "shards"}
	seen := counted(in, in.Streams, "stream", "streams")
	switch {
	case in.Misplaced == 0 && shards&(shards-1) != 0:
		f.OK, f.Detail = true, fmt.Sprintf("max_shards = %d is not a power of two: publishers and that service use different streams for some clients; both are read here, which fits %s", shards, seen)
		return f
	case in.Misplaced > 0:
		f.Detail = fmt.Sprintf("%d of %s are not in the shard that max_shards = %d gives, %s for one: nobody would read them", in.Misplaced, seen, shards, clean(in.Example))
	default:
		f.OK, f.Detail = true, fmt.Sprintf("shard = (first half + second half of the client's UUID) mod %d, as of the keys of %s", shards, seen)
		return f
	}
	if f.Hint = "set max_shards to what the publishers use"; len(in.Fits) > 0 {
		f.Hint += "; all keys fit " + strings.Join(strings.Fields(strings.Trim(fmt.Sprint(in.Fits), "[]")), " or ")
	}
	return f
}

func counted(in *redisstream.Inspection, n int, one, many string) string {
	text := fmt.Sprintf("%d %s", n, many)
	if n == 1 {
		text = "1 " + one
	}
	if in.Partial {
		text = "the first " + text
	}
	return text
}

// foundOrphans counts entries of clients that never connect, so that nobody will acknowledge the entries.
func foundOrphans(in *redisstream.Inspection) finding {
	f := finding{Check: "orphans", OK: true, Detail: fmt.Sprintf("none among %s", counted(in, in.Entries, "entry", "entries"))}
	if in.Orphans > 0 {
		f.Detail = fmt.Sprintf("%d of %s expired more than a minute ago", in.Orphans, counted(in, in.Entries, "entry", "entries"))
		f.Hint = "nothing to do: a running server deletes them, at a bounded rate"
	}
	return f
}

// foundPoison counts entries that can never become a notification.
func foundPoison(in *redisstream.Inspection) finding {
	n := 0
	for _, of := range in.Quarantined {
		n += of
	}
	f := finding{Check: "poison", OK: true, Detail: fmt.Sprintf("%d in quarantine", n)}
	if in.Poison > 0 {
		f.Detail += fmt.Sprintf(", %d not yet: %s", in.Poison, clean(in.Wrong.Error()))
	}
	if n > 0 {
		shard := slices.Min(slices.Collect(maps.Keys(in.Quarantined)))
		f.Hint = fmt.Sprintf("XRANGE godwit:quarantine{%d} - + shows them with what was wrong; DEL forgets them", shard)
	}
	return f
}
