package campaign

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"godwit.dev/godwit/internal/audience"
	"godwit.dev/godwit/internal/notification"
	"godwit.dev/godwit/internal/push"
)

// Limits of a campaign.
const (
	MaxNameBytes    = 200
	MaxContentBytes = 32 << 10 // no channel takes more than 4 KB of it; the rest is other languages
	MaxLocales      = 100
	MaxSpread       = 7 * 24 * time.Hour
	MaxAhead        = 366 * 24 * time.Hour // of send_at
	DefaultTTL      = 24 * time.Hour
	MaxTTL          = 28 * 24 * time.Hour // what push services keep a message for at most
	MaxRate         = 1_000_000           // a second
)

// Spec is what a campaign was asked to be. Its JSON is stored and shown.
type Spec struct {
	Name     string            `json:"name,omitempty"`
	Content  Content           `json:"content"`
	Audience audience.Audience `json:"audience"`
	Rate     Rate              `json:"rate,omitempty"`
	Spread   Duration          `json:"spread,omitempty"`
	Quiet    *QuietHours       `json:"quiet_hours,omitempty"`
	TTL      Duration          `json:"ttl,omitempty"`       // from a delivery's first attempt; 0: DefaultTTL
	Expires  time.Time         `json:"expires_at,omitzero"` // nothing is sent after it
	Priority push.Urgency      `json:"priority,omitempty"`  // empty: normal
	Collapse string            `json:"collapse_key,omitempty"`
	UTM      string            `json:"utm,omitempty"`   // query that is added to URLs: utm_source=…&utm_medium=…
	Track    *bool             `json:"track,omitempty"` // nil: yes
}

// Content is a campaign's message: texts with variables, and variants of them in other languages.
type Content struct {
	push.Content
	Locales map[string]Variant `json:"locales,omitempty"` // by BCP 47 tag: fr, fr-CA
}

// Variant replaces those parts of the content that it has.
type Variant struct {
	Title string          `json:"title,omitempty"`
	Body  string          `json:"body,omitempty"`
	Icon  string          `json:"icon,omitempty"`
	Image string          `json:"image,omitempty"`
	URL   string          `json:"url,omitempty"`
	Data  json.RawMessage `json:"data,omitempty"`
}

// QuietHours are hours of the day in which nobody is to be disturbed, in the recipient's time zone or a named one.
type QuietHours struct {
	From     string `json:"from"` // HH:MM
	To       string `json:"to"`
	Timezone string `json:"timezone,omitempty"` // "recipient" (default) or an IANA name, also used where a recipient has none
	Fallback string `json:"fallback,omitempty"` // time zone of recipients who have none; empty: UTC
}

// Tracked reports whether receivers are asked to report what became of the message.
func (s *Spec) Tracked() bool { return s.Track == nil || *s.Track }

// Life is how long a delivery may be tried from its first attempt on.
func (s *Spec) Life() time.Duration {
	if s.TTL > 0 {
		return time.Duration(s.TTL)
	}
	return DefaultTTL
}

// Urgency is how soon a provider should wake a device.
func (s *Spec) Urgency() push.Urgency {
	if s.Priority == "" {
		return push.UrgencyNormal
	}
	return s.Priority
}

// Check refuses what cannot be sent, naming the field.
func (s *Spec) Check(now, sendAt time.Time) error {
	if len(s.Name) > MaxNameBytes || !utf8.ValidString(s.Name) {
		return notification.BadField("name", "must be text of at most %d bytes", MaxNameBytes)
	}
	if err := s.Content.check(); err != nil {
		return err
	}
	if _, err := s.Audience.Select("audience"); err != nil {
		return err
	}
	for i, ch := range s.Audience.Channels {
		if !slices.Contains(Channels(), ch) {
			return notification.BadField(fmt.Sprintf("audience.channels[%d]", i), "channel %s cannot be sent to by this server", ch)
		}
	}
	begin := now
	if !sendAt.IsZero() {
		if begin = sendAt; sendAt.Sub(now) > MaxAhead {
			return notification.BadField("send_at", "is more than a year ahead")
		}
	}
	switch {
	case s.Rate < 0 || s.Rate > MaxRate:
		return notification.BadField("rate", "must be from 1/h to %d/s", MaxRate)
	case s.Spread < 0 || time.Duration(s.Spread) > MaxSpread:
		return notification.BadField("spread", "must be at most 7 days")
	case s.TTL < 0 || time.Duration(s.TTL) > MaxTTL:
		return notification.BadField("ttl", "must be at most 28 days: push services keep no message longer")
	case !s.Expires.IsZero() && !s.Expires.After(begin):
		return notification.BadField("expires_at", "lies before the campaign begins")
	}
	switch s.Priority {
	case "", push.UrgencyLow, push.UrgencyNormal, push.UrgencyHigh:
	default:
		return notification.BadField("priority", "%q is none of high, normal, low", s.Priority)
	}
	if s.Collapse != "" {
		if err := notification.CheckName("collapse_key", s.Collapse); err != nil {
			return err
		}
	}
	if _, err := url.ParseQuery(s.UTM); err != nil || strings.ContainsAny(s.UTM, "?# \t\r\n") {
		return notification.BadField("utm", "must be a query like utm_source=news&utm_medium=push")
	}
	if s.Quiet != nil {
		if _, err := s.Quiet.parse(); err != nil {
			return err
		}
	}
	return nil
}

func (c *Content) check() error {
	if c.Title == "" && c.Body == "" {
		return notification.BadField("content.title", "is required, or content.body: an empty message says nothing")
	}
	all, err := json.Marshal(c)
	if err != nil {
		return notification.BadField("content", "%v", err)
	}
	if len(all) > MaxContentBytes {
		return notification.BadField("content", "has %d bytes; at most %d are allowed", len(all), MaxContentBytes)
	}
	if len(c.Locales) > MaxLocales {
		return notification.BadField("content.locales", "has more than %d languages", MaxLocales)
	}
	if err := checkTelegram(&c.Telegram); err != nil {
		return err
	}
	if level := c.APNs.InterruptionLevel; level != "" && !slices.Contains(push.InterruptionLevels, level) {
		return notification.BadField("content.apns.interruption_level", "%.40q is none of %s", level, strings.Join(push.InterruptionLevels, ", "))
	}
	if n := c.APNs.Badge; n != nil && *n < 0 {
		return notification.BadField("content.apns.badge", "%d is below 0", *n)
	}
	base := Variant{Title: c.Title, Body: c.Body, Icon: c.Icon, Image: c.Image, URL: c.URL, Data: c.Data}
	if err := base.check("content."); err != nil {
		return err
	}
	for tag, v := range c.Locales {
		if !validTag(tag) {
			return notification.BadField("content.locales", "%q is not a language tag like fr or fr-CA", tag)
		}
		if err := v.check("content.locales." + tag + "."); err != nil {
			return err
		}
	}
	return nil
}

// Limits of the buttons below a message of Telegram. It documents none; its servers refuse more.
const (
	maxButtons       = 100
	maxButtonsInRow  = 8
	maxButtonText    = 256 // bytes; phones show some 40 characters
	maxTelegramMedia = 2048
)

func checkTelegram(t *push.TelegramContent) error {
	const in = "content.telegram."
	switch t.ParseMode {
	case "", "HTML", "MarkdownV2", "Markdown":
	default:
		return notification.BadField(in+"parse_mode", "%q is none of HTML, MarkdownV2, Markdown", t.ParseMode)
	}
	first := ""
	for _, f := range []struct{ name, media string }{{"photo", t.Photo}, {"video", t.Video}, {"animation", t.Animation}, {"document", t.Document}} {
		switch {
		case f.media == "":
			continue
		case first != "":
			return notification.BadField(in+f.name, "a message has one of photo, video, animation and document, and this one has %s", first)
		case len(f.media) > maxTelegramMedia:
			return notification.BadField(in+f.name, "has %d bytes; at most %d are allowed", len(f.media), maxTelegramMedia)
		}
		if err := checkTemplate(f.media); err != nil {
			return notification.BadField(in+f.name, "%v", err)
		}
		first = f.name
	}
	return checkButtons(in+"buttons", t.Buttons)
}

func checkButtons(field string, rows [][]push.TelegramLink) error {
	n := 0
	for i, row := range rows {
		at := fmt.Sprintf("%s[%d]", field, i)
		if n += len(row); len(row) == 0 || len(row) > maxButtonsInRow || n > maxButtons {
			return notification.BadField(at, "must have 1 to %d buttons, and all rows together at most %d", maxButtonsInRow, maxButtons)
		}
		for j, b := range row {
			at := fmt.Sprintf("%s[%d]", at, j)
			if strings.TrimSpace(b.Text) == "" || len(b.Text) > maxButtonText || !utf8.ValidString(b.Text) {
				return notification.BadField(at+".text", "must be text of 1 to %d bytes", maxButtonText)
			}
			if err := checkTemplate(b.Text); err != nil {
				return notification.BadField(at+".text", "%v", err)
			}
			if err := checkButtonURL(b.URL); err != nil {
				return notification.BadField(at+".url", "%v", err)
			}
		}
	}
	return nil
}

// checkButtonURL lets through what Telegram opens: web addresses and its own links.
func checkButtonURL(text string) error {
	if err := checkTemplate(text); err != nil {
		return err
	}
	if strings.HasPrefix(text, "tg://") {
		return nil
	}
	if strings.HasPrefix(text, "/") {
		return fmt.Errorf("must be a whole URL: in a chat there is no site that a path could be of")
	}
	return checkURL(text)
}

func (v *Variant) check(prefix string) error {
	for _, f := range []struct{ name, text string }{
		{"title", v.Title}, {"body", v.Body}, {"icon", v.Icon}, {"image", v.Image}, {"url", v.URL},
	} {
		if err := checkTemplate(f.text); err != nil {
			return notification.BadField(prefix+f.name, "%v", err)
		}
	}
	if err := notification.CheckJSON(prefix+"data", v.Data); err != nil {
		return err
	}
	if v.URL != "" {
		if err := checkURL(v.URL); err != nil {
			return notification.BadField(prefix+"url", "%v", err)
		}
	}
	return nil
}

// checkURL lets only web addresses through: a click must not run script. Variables may stand in it, but not in its
// scheme and host.
func checkURL(text string) error {
	plain, _, _ := strings.Cut(text, "{{")
	u, err := url.Parse(plain)
	if err != nil {
		return fmt.Errorf("is not a URL")
	}
	if u.Scheme == "" && u.Host == "" && strings.HasPrefix(text, "/") && !strings.HasPrefix(text, "//") {
		return nil // on the page's own site
	}
	if u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		return fmt.Errorf("must be an https or http URL, or a path that begins with /")
	}
	if len(plain) < len(text) && u.Path == "" {
		return fmt.Errorf("must have its host before any variable")
	}
	return nil
}

func validTag(tag string) bool {
	if len(tag) < 2 || len(tag) > 35 {
		return false
	}
	for part := range strings.SplitSeq(tag, "-") {
		if part == "" || len(part) > 8 || strings.Trim(part, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") != "" {
			return false
		}
	}
	return true
}

// Rate is sends a second. Its JSON is like "25/s"; 0 is not given.
type Rate float64

// ParseRate reads "25/s", "100/m" or "1000/h".
func ParseRate(s string) (Rate, error) {
	count, unit, ok := strings.Cut(s, "/")
	per := map[string]float64{"s": 1, "m": 60, "h": 3600}[unit]
	n, err := strconv.ParseFloat(count, 64)
	if !ok || per == 0 || err != nil || !(n > 0) || n > MaxRate*per {
		return 0, fmt.Errorf("%.40q is not a rate; write it like 25/s, 100/m or 1000/h", s)
	}
	return Rate(n / per), nil
}

func (r Rate) String() string {
	switch {
	case r <= 0:
		return ""
	case r >= 1:
		return number(float64(r)) + "/s"
	case r >= 1.0/60:
		return number(float64(r)*60) + "/m"
	}
	return number(float64(r)*3600) + "/h"
}

// number writes a figure with at most two decimals.
func number(f float64) string {
	return strings.TrimSuffix(strings.TrimRight(strconv.FormatFloat(f, 'f', 2, 64), "0"), ".")
}

// MarshalText implements encoding.TextMarshaler.
func (r Rate) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *Rate) UnmarshalText(b []byte) (err error) {
	if len(b) == 0 {
		*r = 0
		return nil
	}
	*r, err = ParseRate(string(b))
	return err
}

// Duration is a duration as the API writes it: "30s", "8h", "7d", or whole seconds.
type Duration time.Duration

// MarshalJSON implements json.Marshaler.
func (d Duration) MarshalJSON() ([]byte, error) {
	t := time.Duration(d)
	for _, unit := range []struct {
		d    time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}} {
		if t%unit.d == 0 && t != 0 {
			return []byte(`"` + strconv.FormatInt(int64(t/unit.d), 10) + unit.name + `"`), nil
		}
	}
	return []byte(`"` + t.String() + `"`), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (d *Duration) UnmarshalJSON(b []byte) error {
	v, err := notification.ParseDuration(strings.Trim(string(b), `"`))
	*d = Duration(v)
	return err
}
