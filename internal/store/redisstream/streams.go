package redisstream

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/rueidis"

	"godwit.dev/godwit/internal/access/urlguard"
	"godwit.dev/godwit/internal/engine/pause"
	"godwit.dev/godwit/internal/feeds/source/streams"
	"godwit.dev/godwit/internal/notify/notification"
)

// StreamsConfig names the Redis and the streams to consume.
type StreamsConfig struct {
	URLs    []string         // redis:// or rediss://; several: seeds of a cluster
	Clients []string         // whose streams; empty: all
	Targets urlguard.Targets // that may be dialled
	Log     *slog.Logger     // nil: discards
}

// Streams gives access to all streams of a Redis, whether their clients are online or not, for a caller that consumes all entries.
type Streams struct {
	link   *link
	finder *finder
	only   map[string]bool // clients; nil: all

	hint func(keys []string) // Watch's
	miss func()
}

var _ streams.Streams = (*Streams)(nil)

const (
	scanRate = 20_000      // keys that Scan reads per second and master
	pollRate = time.Second // interval of reading all streams if Redis does not report new entries
)

// OpenStreams connects to Redis. It tries once.
func OpenStreams(ctx context.Context, cfg StreamsConfig) (*Streams, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	l, err := connect(cfg.URLs, cfg.Targets)
	if err != nil {
		return nil, err
	}
	s := &Streams{link: l}
	if len(cfg.Clients) > 0 {
		s.only = make(map[string]bool, len(cfg.Clients))
		for _, c := range cfg.Clients {
			s.only[Recipient(c)] = true
		}
	}
	s.finder = &finder{
		link: l, log: cfg.Log, told: s.told,
		heard:  func(string) { s.miss() }, // an announcement names a client, but not the shard of its stream
		missed: func(string) { s.miss() },
	}
	if err := s.finder.choose(ctx); err != nil {
		l.close()
		return nil, err
	}
	return s, nil
}

// Close closes the connections.
func (s *Streams) Close() { s.link.close() }

// Finding returns how Watch finds new entries.
func (s *Streams) Finding() string { return s.finder.finding() }

// Watch calls hint with streams that may have new entries, and missed when any stream may have some, until ctx ends. Call it once.
func (s *Streams) Watch(ctx context.Context, hint func(keys []string), missed func()) error {
	s.hint, s.miss = hint, missed
	polled := make(chan struct{})
	go func() {
		defer close(polled)
		for s.finder.way == ByPoll && pause.For(ctx, pollRate) {
			missed()
		}
	}()
	s.finder.run(ctx)
	<-polled
	return context.Cause(ctx)
}

func (s *Streams) told(key string) {
	if s.wanted(key) {
		s.hint([]string{key})
	}
}

func (s *Streams) wanted(key string) bool {
	client, _, ok := ClientOf(key)
	return ok && (s.only == nil || s.only[client])
}

// Scan calls found with all existing streams, a few at a time.
func (s *Streams) Scan(ctx context.Context, found func(keys []string) error) error {
	t, err := s.link.topology(ctx)
	if err != nil {
		return err
	}
	for _, master := range t.masters {
		err := s.link.scan(ctx, master, scanRate, func(_ context.Context, keys []string) error {
			wanted := make([]string, 0, len(keys))
			for _, key := range keys {
				if s.wanted(key) {
					wanted = append(wanted, key)
				}
			}
			return found(wanted)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Read returns up to most of the oldest entries of each stream.
func (s *Streams) Read(ctx context.Context, keys []string, most int) ([]streams.Stream, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, callWithin, fmt.Errorf("no answer from Redis in %s", callWithin))
	defer cancel()
	asked := make([]rueidis.Completed, len(keys))
	for i, key := range keys {
		asked[i] = s.link.rangeFrom(key, EntryID{}, most)
	}
	list := make([]streams.Stream, len(keys))
	for i, answer := range s.link.main.DoMulti(ctx, asked...) {
		found, err := entriesOf(answer)
		if err != nil {
			return nil, fmt.Errorf("read stream %s: %w", keys[i], err)
		}
		list[i].Key = keys[i]
		for _, r := range found {
			list[i].Entries = append(list[i].Entries, entryOf(keys[i], r))
		}
	}
	return list, nil
}

// entryOf converts an entry to one that is published.
func entryOf(key string, r raw) streams.Entry {
	out := streams.Entry{ID: r.id, Raw: r}
	e, err := ParseEntry(key, r.id, r.fields)
	if err != nil {
		out.Wrong = err
		return out
	}
	data, _ := json.Marshal(extra{Show: e.Show, Entity: entity{ID: e.EntityID, Type: e.EntityType, Data: e.EntityData}}) // strings always encode
	out.Draft = &notification.Draft{
		To: []string{e.Client}, ID: e.NotificationID, ExpiresAt: e.ExpiresAt,
		Content: notification.Content{Title: e.Title, Body: e.Body, Category: e.Category, Data: data, ContentType: "application/json"},
	}
	return out
}

// extra has an entry's fields other than title, body and category, as the data of a notification.
type extra struct {
	Show   string `json:"show"`
	Entity entity `json:"entity"`
}

type entity struct {
	ID   string `json:"id"`
	Type string `json:"type"`
	Data string `json:"data"` // JSON as text
}

// Delete deletes entries, by stream.
func (s *Streams) Delete(ctx context.Context, ids map[string][]string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, callWithin, fmt.Errorf("no answer from Redis in %s", callWithin))
	defer cancel()
	asked := make([]rueidis.Completed, 0, len(ids))
	for key, list := range ids {
		asked = append(asked, s.link.main.B().Xdel().Key(key).Id(list...).Build())
	}
	for _, answer := range s.link.main.DoMulti(ctx, asked...) {
		if err := answer.Error(); err != nil {
			return fmt.Errorf("delete what was taken from streams: %w", err)
		}
	}
	return nil
}

// Quarantine moves an entry to a stream where people can examine it.
func (s *Streams) Quarantine(ctx context.Context, key string, e streams.Entry, why error) error {
	r, ok := e.Raw.(raw)
	if !ok {
		return fmt.Errorf("set entry %s of %s aside: it was not read here", e.ID, key)
	}
	return s.link.setAside(ctx, key, r, why)
}
