// Package streams is the kind of sources that are Redis streams named N<recipient>{<shard>}, an entry a notification. A stored entry is
// deleted in Redis, so that the streams themselves are the checkpoint.
package streams

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/notify/notification"
)

// Name is that of the kind.
const Name = "redisstream"

// Fields of the kind.
const (
	FieldURLs       = "urls"
	FieldPassword   = "password"
	FieldRecipients = "recipients"
)

// Limits of what a source may say.
const (
	maxURLs       = 16    // of a cluster, any few nodes tell of the others
	maxURL        = 2048  // bytes
	maxPassword   = 512   // bytes
	maxRecipients = 1_000 // who wants more wants all
)

// Kind is this kind of source.
type Kind struct {
	// Dial connects to a Redis. It fails when that does not answer within a few seconds.
	Dial func(ctx context.Context, t Target) (Streams, error)
}

var _ source.Kind = Kind{}

// Target is the Redis servers and streams to read.
type Target struct {
	URLs       []string // passwords included
	Recipients []string // empty: all
	Private    bool     // private addresses may be dialled
}

// Fields implements source.Kind.
func (Kind) Fields() []setting.Field {
	return []setting.Field{
		{Name: FieldURLs, Type: setting.List, Address: true, Most: maxURLs, Flag: "redis-url", Help: "where Redis is: redis://host:6379, or rediss:// for TLS; several are nodes of one cluster"},
		{Name: FieldRecipients, Type: setting.List, Most: maxRecipients, Flag: "recipient", Help: "read the streams of this recipient only (repeatable)"},
		{Name: FieldPassword, Secret: true, Flag: "password-file", Help: "file with the password of Redis"},
	}
}

// Check implements source.Kind.
func (Kind) Check(v setting.Values) error {
	urls, recipients := v.List(FieldURLs), v.List(FieldRecipients)
	switch {
	case len(urls) == 0:
		return notification.BadField(FieldURLs, "is required: where Redis is, like redis://host:6379")
	case len(urls) > maxURLs:
		return notification.BadField(FieldURLs, "has %d URLs; at most %d are allowed, and any node of a cluster tells of the others", len(urls), maxURLs)
	case len(recipients) > maxRecipients:
		return notification.BadField(FieldRecipients, "has %d names; at most %d are allowed, and none means all", len(recipients), maxRecipients)
	case len(v.Text(FieldPassword)) > maxPassword:
		return notification.BadField(FieldPassword, "has more than %d bytes", maxPassword)
	}
	for i, raw := range urls {
		if problem := checkURL(raw); problem != "" {
			return notification.BadField(fmt.Sprintf("%s[%d]", FieldURLs, i), "%s", problem)
		}
	}
	for i, name := range recipients {
		if err := notification.CheckName(fmt.Sprintf("%s[%d]", FieldRecipients, i), name); err != nil {
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

// Open implements source.Kind.
func (k Kind) Open(ctx context.Context, t source.Target) (source.Feed, error) {
	to := Target{Recipients: t.Values.List(FieldRecipients), Private: t.Private}
	for _, raw := range t.Values.List(FieldURLs) {
		to.URLs = append(to.URLs, withPassword(raw, access.Secret(t.Values.Text(FieldPassword))))
	}
	s, err := k.Dial(ctx, to)
	if err != nil {
		return nil, err
	}
	return &feed{s}, nil
}

// withPassword puts the password into the URL of a Redis, as its clients take it.
func withPassword(raw string, password access.Secret) string {
	u, err := url.Parse(raw)
	if err != nil || password == "" { // it was read when it was set
		return raw
	}
	u.User = url.UserPassword(u.User.Username(), string(password))
	return u.String()
}

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
