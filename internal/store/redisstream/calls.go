package redisstream

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"godwit.dev/godwit/internal/engine/pause"
)

// raw is an entry as Redis returns it.
type raw struct {
	id     string
	fields []Field
}

// rangeFrom returns the command that reads up to most entries of a stream from an id on; rangeOf reads those between two ids.
func (l *link) rangeFrom(key string, from EntryID, most int) rueidis.Completed {
	return l.main.B().Xrange().Key(key).Start(from.String()).End("+").Count(int64(most)).Build()
}

func (l *link) rangeOf(key string, from, to EntryID) rueidis.Completed {
	return l.main.B().Xrange().Key(key).Start(from.String()).End(to.String()).Build()
}

// entriesOf parses the answer to either command. A key that is no stream has no entries.
func entriesOf(res rueidis.RedisResult) ([]raw, error) {
	list, err := res.AsXRangeSlices()
	if err != nil {
		if isNil(err) || isWrongType(err) {
			return nil, nil
		}
		return nil, err
	}
	out := make([]raw, len(list))
	for i, e := range list {
		out[i] = raw{id: e.ID, fields: make([]Field, len(e.FieldValues))}
		for k, f := range e.FieldValues {
			out[i].fields[k] = Field{Name: f.Field, Value: f.Value}
		}
	}
	return out, nil
}

func isNil(err error) bool { return rueidis.IsRedisNil(err) }

func isWrongType(err error) bool {
	said, ok := rueidis.IsRedisErr(err)
	return ok && strings.HasPrefix(said.Error(), "WRONGTYPE")
}

// quarantine is the key prefix of the streams for undeliverable entries: one per shard, in the slot of the shard's streams.
const (
	quarantine      = "godwit:quarantine"
	quarantineMost  = 1000     // entries of a shard
	quarantineValue = 64 << 10 // bytes of a value that are copied
)

// setAside copies an entry to its shard's quarantine, with its origin and the reason, and then deletes it.
func (l *link) setAside(ctx context.Context, key string, e raw, why error) error {
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	_, shard, _ := ClientOf(key)
	add := l.main.B().Xadd().Key(quarantine+"{"+strconv.Itoa(shard)+"}").Maxlen().Almost().Threshold(strconv.Itoa(quarantineMost)).Id("*").FieldValue().
		FieldValue("quarantine.stream", key).FieldValue("quarantine.entry", e.id).FieldValue("quarantine.error", why.Error())
	for _, f := range e.fields {
		add = add.FieldValue(cut(f.Name), cut(f.Value))
	}
	if err := l.main.Do(ctx, add.Build()).Error(); err != nil {
		return fmt.Errorf("copy entry %s of %s to the quarantine: %w", e.id, key, err)
	}
	if err := l.main.Do(ctx, l.main.B().Xdel().Key(key).Id(e.id).Build()).Error(); err != nil {
		return fmt.Errorf("delete entry %s of %s: %w", e.id, key, err)
	}
	return nil
}

func cut(s string) string { return s[:min(len(s), quarantineValue)] }

// scanStep is how many keys one step of a scan reads.
const scanStep = 100

// scan calls found with the keys of a master's streams, a few at a time. It examines at most perSecond keys a second.
func (l *link) scan(ctx context.Context, master string, perSecond int, found func(ctx context.Context, keys []string) error) error {
	step := scanStep * time.Second / time.Duration(perSecond)
	for cursor := uint64(0); ; {
		began := time.Now()
		c := l.node(master)
		if c == nil {
			return fmt.Errorf("look through the keys of Redis at %s: it is no master any more", master)
		}
		one, done := context.WithTimeout(ctx, callWithin)
		got, err := c.Do(one, c.B().Scan().Cursor(cursor).Match(prefix+"*{*}").Count(scanStep).Build()).AsScanEntry()
		done()
		if err != nil {
			return fmt.Errorf("look through the keys of Redis at %s: %w", master, err)
		}
		keys := got.Elements[:0]
		for _, key := range got.Elements {
			if _, _, ok := ClientOf(key); ok {
				keys = append(keys, key)
			}
		}
		if len(keys) > 0 {
			if err := found(ctx, keys); err != nil {
				return err
			}
		}
		if cursor = got.Cursor; cursor == 0 {
			return nil
		}
		if !pause.For(ctx, max(step-time.Since(began), 0)) {
			return context.Cause(ctx)
		}
	}
}
