package clickhouse

import (
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	"godwit.dev/godwit/internal/access/urlguard"
	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/feeds/sink"
	"godwit.dev/godwit/internal/notify/notification"
)

// Name is the name of this kind of sink.
const Name = "clickhouse"

// Fields of the kind.
const (
	FieldURL      = "url" // http:// http:// or https://, without a password
	FieldDatabase = "database"
	FieldUser     = "user"
	FieldPassword = "password"
	FieldKeep     = "keep" // how long events stay there
)

// Defaults of the fields.
const (
	DefaultDatabase = "godwit"
	DefaultKeep     = 90 * 24 * time.Hour
)

// Limits of a sink's settings.
const (
	maxText  = 512  // most bytes of a user name and of a password
	maxURL   = 2048 // bytes
	keepMost = 3650 * 24 * time.Hour
)

const connections = 2 // most connections of a sink: it writes one batch at a time

var names = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,62}$`) })

// Kind is the ClickHouse kind of sink.
type Kind struct{}

var (
	_ sink.Kind         = Kind{}
	_ setting.Recipient = Kind{}
)

// Fields implements sink.Kind.
func (Kind) Fields() []setting.Field {
	return []setting.Field{
		{Name: FieldURL, Address: true, Flag: "clickhouse-url", Help: "where ClickHouse answers HTTP: https://host:8443, or http://host:8123"},
		{Name: FieldDatabase, Default: setting.JSON(DefaultDatabase), Flag: "database", Help: "database of the tables; it is made where it is missing (default godwit)"},
		{Name: FieldUser, Flag: "user", Help: "who writes"},
		{Name: FieldPassword, Secret: true, Flag: "password-file", Help: "file with the user's password"},
		{Name: FieldKeep, Type: setting.Days, Default: setting.JSON(DefaultKeep), Flag: "keep", Help: "how long ClickHouse keeps events, like 90d (default 90d)"},
	}
}

// Check implements sink.Kind. Its errors never show the URL, which may contain a password.
func (Kind) Check(v setting.Values) error {
	raw := v.Text(FieldURL)
	u, err := url.Parse(raw)
	switch {
	case err != nil || len(raw) > maxURL || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || strings.Contains(raw, "#"):
		return notification.BadField(FieldURL, "is not a URL like https://clickhouse.internal:8443")
	case u.User != nil || u.Query().Has("password") || u.Query().Has("user"):
		return notification.BadField(FieldURL, "must not contain a user or a password: they have fields of their own, and the password is never shown")
	case len(v.Text(FieldUser)) > maxText:
		return notification.BadField(FieldUser, "has more than %d bytes", maxText)
	case len(v.Text(FieldPassword)) > maxText:
		return notification.BadField(FieldPassword, "has more than %d bytes", maxText)
	}
	return CheckTarget(v.Text(FieldDatabase), v.Duration(FieldKeep))
}

// Recipients implements setting.Recipient.
func (Kind) Recipients(v setting.Values) []string {
	u, err := url.Parse(v.Text(FieldURL))
	if err != nil || v.Text(FieldURL) == "" {
		return nil
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return []string{setting.At(v.Text(FieldUser), u.Hostname(), port)}
}

// CheckTarget checks a database's name and how long it keeps events. Its error is a *notification.FieldError.
func CheckTarget(database string, keep time.Duration) error {
	switch {
	case !names().MatchString(database):
		return notification.BadField(FieldDatabase, "must be a name of letters, digits and _, at most 63")
	case keep < 24*time.Hour || keep > keepMost:
		return notification.BadField(FieldKeep, "must be from 1 to 3650 days")
	}
	return nil
}

// Open implements sink.Kind.
func (Kind) Open(t sink.Target) (sink.Writer, error) {
	return New(Config{
		URL: t.Values.Text(FieldURL), Database: t.Values.Text(FieldDatabase), User: t.Values.Text(FieldUser), Password: t.Values.Text(FieldPassword),
		Keep: t.Values.Duration(FieldKeep), Client: t.Targets.Client(urlguard.Options{Timeout: AnswerWithin, ConnsPerHost: connections}),
	}), nil
}
