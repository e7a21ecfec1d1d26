// Package source takes notifications from where an app's publishers already put them, so far the Redis streams of a service whose place
// is being taken: what is found there is published into the app's mailboxes and, once it is stored, deleted there.
package source

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/notify/delivery"
	"godwit.dev/godwit/internal/notify/notification"
)

// RedisStream is the kind of sources that there is: Redis streams named N<recipient>{<shard>}, an entry a notification.
const RedisStream = "redisstream"

// Errors that callers tell apart. Wrapped, never bare.
var (
	// ErrUnknown says that there is no such kind of source.
	ErrUnknown = errors.New("no such source")
	// ErrNone says that the app has no source of that kind.
	ErrNone = errors.New("source is not set up")
)

// Source is where notifications of an app come from. Its kind names it: an app has one of each.
type Source struct {
	App        string
	Kind       string
	URLs       []string      // redis:// or rediss://, no password in them; several: nodes of one cluster
	Password   access.Secret // goes in and never comes out
	Recipients []string      // whose streams are read; empty: all
	Enabled    bool
	Private    bool // may lead to private addresses, because it was set by who owns the data folder
	CreatedAt  time.Time
	UpdatedAt  time.Time
}

func (s *Source) same(o *Source) bool {
	return s.Enabled == o.Enabled && s.Private == o.Private && s.Password == o.Password && s.CreatedAt.Equal(o.CreatedAt) && s.UpdatedAt.Equal(o.UpdatedAt) &&
		slices.Equal(s.URLs, o.URLs) && slices.Equal(s.Recipients, o.Recipients)
}

// Limits of what a source may say.
const (
	maxURLs       = 16    // of a cluster, any few nodes tell of the others
	maxURL        = 2048  // bytes
	maxPassword   = 512   // bytes
	maxRecipients = 1_000 // who wants more wants all
)

// Change says what a source is to be. Password and Enabled stay as they are where nil.
type Change struct {
	URLs       []string
	Password   *access.Secret
	Recipients []string
	Enabled    *bool
	Private    bool // see Source; stays while the URLs do
}

// check looks at the form of a change.
func (c *Change) check() error {
	switch {
	case len(c.URLs) == 0:
		return notification.BadField("urls", "is required: where Redis is, like redis://host:6379")
	case len(c.URLs) > maxURLs:
		return notification.BadField("urls", "has %d URLs; at most %d are allowed, and any node of a cluster tells of the others", len(c.URLs), maxURLs)
	case len(c.Recipients) > maxRecipients:
		return notification.BadField("recipients", "has %d names; at most %d are allowed, and none means all", len(c.Recipients), maxRecipients)
	case c.Password != nil && len(*c.Password) > maxPassword:
		return notification.BadField("password", "has more than %d bytes", maxPassword)
	}
	for i, raw := range c.URLs {
		if problem := checkURL(raw); problem != "" {
			return notification.BadField(fmt.Sprintf("urls[%d]", i), "%s", problem)
		}
	}
	for i, name := range c.Recipients {
		if err := notification.CheckName(fmt.Sprintf("recipients[%d]", i), name); err != nil {
			return err
		}
	}
	return nil
}

// checkURL says what is wrong with the URL of a Redis. It never shows it: there may be a password in it.
func checkURL(raw string) string {
	u, err := url.Parse(raw)
	switch {
	case err != nil || len(raw) > maxURL || u.Scheme != "redis" && u.Scheme != "rediss" || u.Hostname() == "":
		return "is not a URL like redis://host:6379 or rediss://host:6379"
	case strings.ContainsAny(raw, "?#"):
		return "must end after the host, or the number of the database"
	}
	if _, secret := u.User.Password(); secret {
		return "must not contain a password: it has a field of its own, which is never shown"
	}
	return ""
}

// Store keeps sources, by kind.
type Store = setting.Store[Source]

// Publisher stores and routes.
type Publisher interface {
	Publish(ctx context.Context, app string, drafts []*notification.Draft) []delivery.Result
}

// Target is the Redis servers and streams to read.
type Target struct {
	URLs       []string // passwords included
	Recipients []string // empty: all
	Private    bool     // private addresses may be dialled
}

// Opener connects to a Redis. It fails when that does not answer within a few seconds.
type Opener func(ctx context.Context, t Target) (Streams, error)

// Streams are the streams of a Redis.
type Streams interface {
	// Finding is how Watch finds out what is new: tracking, keyspace, publish or poll.
	Finding() string
	// Watch calls hint with streams that may hold something new, and missed when others may, too, until ctx ends or Redis is lost.
	Watch(ctx context.Context, hint func(keys []string), missed func()) error
	// Scan calls found with all streams that there are, a few at a time.
	Scan(ctx context.Context, found func(keys []string) error) error
	// Read reads up to so many of the oldest entries of each of these streams.
	Read(ctx context.Context, keys []string, most int) ([]Stream, error)
	// Delete deletes entries, by stream.
	Delete(ctx context.Context, ids map[string][]string) error
	// Quarantine moves an entry to where people can look at it.
	Quarantine(ctx context.Context, key string, e Entry, why error) error
	Close()
}

// Stream is what was read of one.
type Stream struct {
	Key     string
	Entries []Entry
}

// Entry is one entry of a stream.
type Entry struct {
	ID    string
	Draft *notification.Draft // nil: it makes none
	Wrong error               // why
	Raw   any                 // what Quarantine needs of it
}

// State is a source's condition in one word.
type State string

// States.
const (
	Reading  State = "reading"
	Failing  State = "failing"  // it cannot be read, or what was read cannot be stored; it is tried again
	Waiting  State = "waiting"  // another node reads it, or it is being connected to
	Disabled State = "disabled" // switched off
)

// Info is what may be seen of a source: never its password.
type Info struct {
	Source
	State   State
	Finding string    // how new entries are found; empty: not known now
	Error   string    // why it fails
	Since   time.Time // when it began to fail
	Counts  Counts
}

// Counts are of entries since this server began to read the source.
type Counts struct {
	Stored      uint64 // published into a mailbox
	Duplicate   uint64 // had been before
	Expired     uint64 // came too late
	Quarantined uint64 // were no notification
	Full        uint64 // found their mailbox full, and wait in Redis
}
