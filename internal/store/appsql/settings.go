package appsql

import (
	"time"

	"godwit.dev/godwit/internal/campaigns/segment"
	"godwit.dev/godwit/internal/feeds/hook"
	"godwit.dev/godwit/internal/feeds/sink"
	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/sending/channel"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/store/sqltx"
)

// head holds the fields of settings that have columns of their own.
type head struct {
	app, name        *string
	created, updated *time.Time
}

// settings returns a table whose rows consist of a head and one JSON text, secrets included.
func settings[T any](db DB, table, key string, headOf func(*T) head, encode func(*T) (string, error), decode func(*T, string) error) Table[T] {
	return Table[T]{
		db: db, one: table, many: table + "s", table: table, columns: []string{"app", key, "settings", "created_at", "updated_at"},
		empty: func(app, name string) (one T) {
			h := headOf(&one)
			*h.app, *h.name = app, name
			return one
		},
		read: func(row sqltx.Row) (one T, err error) {
			var text string
			var created, updated int64
			h := headOf(&one)
			if err := row.Scan(h.app, h.name, &text, &created, &updated); err != nil {
				return one, err
			}
			*h.created, *h.updated = fromMillis(created), fromMillis(updated)
			return one, decode(&one, text)
		},
		write: func(one *T) ([]any, error) {
			text, err := encode(one)
			h := headOf(one)
			return []any{text, h.created.UnixMilli(), h.updated.UnixMilli()}, err
		},
	}
}

func hooks(db DB) Table[hook.Hook] {
	return settings(db, "hook", "name", func(h *hook.Hook) head { return head{&h.App, &h.Name, &h.CreatedAt, &h.UpdatedAt} }, encodeHook, decodeHook)
}

func sources(db DB) Table[source.Source] {
	return settings(db, "source", "kind", // the column of the name, which the kind once was
		func(s *source.Source) head { return head{&s.App, &s.Name, &s.CreatedAt, &s.UpdatedAt} }, encodeSource, decodeSource)
}

func sinks(db DB) Table[sink.Sink] {
	return settings(db, "sink", "kind", func(s *sink.Sink) head { return head{&s.App, &s.Kind, &s.CreatedAt, &s.UpdatedAt} }, encodeSink, decodeSink)
}

// segments returns the table of segments. Its changes wake no watchers: nobody keeps a copy.
func segments(db DB) Table[segment.Segment] {
	t := settings(db, "segment", "name", func(s *segment.Segment) head { return head{&s.App, &s.Name, &s.CreatedAt, &s.UpdatedAt} }, encodeSegment, decodeSegment)
	t.quiet = true
	return t
}

const channelTable = "channel"

var channelColumns = []string{"app", "channel", "enabled", "settings", "updated_at"}

func channels(db DB) Table[channel.Record] {
	return Table[channel.Record]{
		db: db, one: "settings of", many: "settings of channels", table: channelTable, columns: channelColumns,
		empty: func(app, name string) channel.Record {
			return channel.Record{App: app, Channel: push.Channel(name), Enabled: true, Values: channel.Values{}}
		},
		read: readChannel,
		write: func(r *channel.Record) ([]any, error) {
			text, err := encodeChannel(r)
			return []any{r.Enabled, text, r.UpdatedAt.UnixMilli()}, err
		},
	}
}

func readChannel(row sqltx.Row) (r channel.Record, err error) {
	var name, text string
	var updated int64
	if err := row.Scan(&r.App, &name, &r.Enabled, &text, &updated); err != nil {
		return r, err
	}
	r.Channel, r.UpdatedAt = push.Channel(name), fromMillis(updated)
	return r, decodeChannel(&r, text)
}
