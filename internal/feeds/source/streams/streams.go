// Package streams is the kind of source that reads Redis streams named N<recipient>{<shard>}, whose entries are notifications. It deletes a
// stored entry in Redis, so the streams themselves are the checkpoint.
package streams

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"strings"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/access/urlguard"
	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/feeds/source"
	"godwit.dev/godwit/internal/notify/notification"
)

// Name is the name of this kind of source.
const Name = "redisstream"

// Fields of the kind.
const (
	FieldURLs       = "urls"
	FieldPassword   = "password"
	FieldRecipients = "recipients"
)

// Limits of a source's settings.
const (
	maxURLs       = 16    // any few nodes of a cluster report the others
	maxURL        = 2048  // bytes
	maxPassword   = 512   // bytes
	maxRecipients = 1_000 // who wants more wants all
)

// Kind is this kind of source.
type Kind struct {
	// Dial connects to a Redis. It fails if Redis does not answer within a few seconds.
	Dial func(ctx context.Context, t Target) (Streams, error)
}

var (
	_ source.Kind       = Kind{}
	_ setting.Recipient = Kind{}
)

// Target is the Redis servers and streams to read.
type Target struct {
	URLs       []string         // passwords included
	Recipients []string         // empty: all
	Targets    urlguard.Targets // that may be dialled
	Log        *slog.Logger
}

// About implements source.Kind.
func (Kind) About() string {
	return "streams N<recipient>{<shard>} of a Redis, as nammayatri's publishers write them"
}

// Fields implements source.Kind.
func (Kind) Fields() []setting.Field {
	return []setting.Field{
		{Name: FieldURLs, Type: setting.List, Address: true, Most: maxURLs, Flag: "redis-url", Help: "where Redis is: redis://host:6379, or rediss:// for TLS; several are nodes of one cluster"},
		{Name: FieldRecipients, Type: setting.List, Most: maxRecipients, Flag: "recipient", Help: "read the streams of this recipient only (repeatable)"},
		{Name: FieldPassword, Secret: true, Flag: "password-file", Help: "file with the password"},
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

// Recipients implements setting.Recipient.
func (Kind) Recipients(v setting.Values) (list []string) {
	for _, raw := range v.List(FieldURLs) {
		if u, err := url.Parse(raw); err == nil {
			list = append(list, setting.At(u.User.Username(), u.Hostname(), cmp.Or(u.Port(), "6379")))
		}
	}
	return list
}

// checkURL returns what is wrong with the URL of a Redis. The text never shows the URL, which may contain a password.
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
	to := Target{Recipients: t.Values.List(FieldRecipients), Targets: t.Targets, Log: t.Log}
	for _, raw := range t.Values.List(FieldURLs) {
		to.URLs = append(to.URLs, withPassword(raw, access.Secret(t.Values.Text(FieldPassword))))
	}
	s, err := k.Dial(ctx, to)
	if err != nil {
		return nil, err
	}
	return &feed{s}, nil
}

// withPassword adds the password to the URL of a Redis, the form in which its clients accept it.
func withPassword(raw string, password access.Secret) string {
	u, err := url.Parse(raw)
	if err != nil || password == "" { // the URL was checked when the source was set
		return raw
	}
	u.User = url.UserPassword(u.User.Username(), string(password))
	return u.String()
}

// Streams gives access to the streams of a Redis.
type Streams interface {
	// Finding names the way in which Watch finds new entries: tracking, keyspace, publish or poll.
	Finding() string
	// Watch calls hint with streams that may have new entries, and missed when other streams may have some too, until ctx ends or the
	// connection to Redis is lost.
	Watch(ctx context.Context, hint func(keys []string), missed func()) error
	// Scan calls found with all existing streams, a few at a time.
	Scan(ctx context.Context, found func(keys []string) error) error
	// Read reads up to most of the oldest entries of each of these streams.
	Read(ctx context.Context, keys []string, most int) ([]Stream, error)
	// Delete deletes entries, by stream.
	Delete(ctx context.Context, ids map[string][]string) error
	// Quarantine moves an entry to a place where operators can inspect it.
	Quarantine(ctx context.Context, key string, e Entry, why error) error
	Close()
}

// Stream is the result of reading one stream.
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
