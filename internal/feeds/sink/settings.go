package sink

import (
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/notify/notification"
)

// Limits of what a sink may say.
const (
	maxText  = 512                 // bytes of a user and a password
	maxURL   = 2048                // bytes
	keepAs   = 90 * 24 * time.Hour // where nothing is said
	keepMost = 3650 * 24 * time.Hour
)

var names = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,62}$`)

// Change has the new settings of a sink. A nil field stays unchanged.
type Change struct {
	URL, Database, User *string
	Password            *access.Secret
	Keep                *time.Duration
	Backfill            *bool // of a sink that is made
	Enabled             *bool
	Private             bool // see Sink; stays while the URL does
}

// apply changes a sink, or makes one of an empty one.
func (c *Change) apply(s *Sink, now time.Time) (created bool) {
	if created = s.CreatedAt.IsZero(); created {
		*s = Sink{App: s.App, Kind: s.Kind, Database: "godwit", Keep: keepAs, Enabled: true, CreatedAt: now}
		set(&s.Backfill, c.Backfill)
	}
	s.Private = c.Private || s.Private && (c.URL == nil || *c.URL == s.URL)
	set(&s.URL, c.URL)
	set(&s.Database, c.Database)
	set(&s.User, c.User)
	set(&s.Password, c.Password)
	set(&s.Keep, c.Keep)
	set(&s.Enabled, c.Enabled)
	if !now.After(s.UpdatedAt) { // a change is later than the one before, whatever the clocks say
		now = s.UpdatedAt.Add(time.Millisecond)
	}
	s.UpdatedAt = now
	return created
}

func set[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

// check says what is wrong with a sink: a *notification.FieldError. It never shows the URL: there may be a password in it.
func (s *Sink) check() error {
	u, err := url.Parse(s.URL)
	switch {
	case err != nil || len(s.URL) > maxURL || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || strings.Contains(s.URL, "#"):
		return notification.BadField("url", "is not a URL like https://clickhouse.internal:8443")
	case u.User != nil || u.Query().Has("password") || u.Query().Has("user"):
		return notification.BadField("url", "must not contain a user or a password: they have fields of their own, and the password is never shown")
	case len(s.User) > maxText:
		return notification.BadField("user", "has more than %d bytes", maxText)
	case len(s.Password) > maxText:
		return notification.BadField("password", "has more than %d bytes", maxText)
	}
	return CheckTarget(s.Database, s.Keep)
}

// CheckTarget says what is wrong with a database's name and how long events are kept there: a *notification.FieldError.
func CheckTarget(database string, keep time.Duration) error {
	switch {
	case !names.MatchString(database):
		return notification.BadField("database", "must be a name of letters, digits and _, at most 63")
	case keep < 24*time.Hour || keep > keepMost:
		return notification.BadField("keep", "must be from 1 to 3650 days")
	}
	return nil
}

// Days is how long events are kept, as a change says it.
func Days(keep time.Duration) string { return strconv.Itoa(int(keep/(24*time.Hour))) + "d" }
