package campaign

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/template"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/push"
)

// Limits of a campaign.
const (
	MaxName         = 200 // characters, whatever the script
	MaxContentBytes = template.MaxContentBytes
	MaxSpread       = 7 * 24 * time.Hour
	MaxAhead        = 366 * 24 * time.Hour // of send_at
	DefaultTTL      = 24 * time.Hour
	MaxTTL          = 28 * 24 * time.Hour // the longest time that push services keep a message
	MaxRate         = 1_000_000           // a second
)

// Spec is a campaign's definition, as requested. Its JSON is stored and shown.
type Spec struct {
	Name string `json:"name,omitempty"`
	// Template names the template from which Content was copied, and TemplateRevision is its revision at that time.
	Template         string             `json:"template,omitempty"`
	TemplateRevision int64              `json:"template_revision,omitempty"`
	Variables        template.Variables `json:"variables,omitempty"` // values for all recipients; they take precedence over attributes

	Content Content `json:"content"`
	// Variants are none, or two; see variant.go. Metric decides, DecideAfter both were sent at TriedAt, what the rest of the audience gets.
	Variants    []Variant `json:"variants,omitempty"`
	Metric      Metric    `json:"metric,omitempty"` // empty: Clicks
	DecideAfter Duration  `json:"decide_after,omitempty"`
	TriedAt     time.Time `json:"tried_at,omitzero"`
	Decision    *Decision `json:"decision,omitempty"` // nil: not yet

	Audience audience.Audience `json:"audience"`
	Segment  *Segment          `json:"segment,omitempty"`    // whose expression Audience.Where has; nil: it is within none
	Local    *LocalTime        `json:"local_time,omitempty"` // in the place of one time for all
	Rate     Rate              `json:"rate,omitempty"`
	Spread   Duration          `json:"spread,omitempty"`
	Quiet    *QuietHours       `json:"quiet_hours,omitempty"`
	TTL      Duration          `json:"ttl,omitempty"`       // from a delivery's first attempt; 0: DefaultTTL
	Expires  time.Time         `json:"expires_at,omitzero"` // nothing is sent after it
	Priority push.Urgency      `json:"priority,omitempty"`  // empty: normal
	Collapse string            `json:"collapse_key,omitempty"`
	UTM      string            `json:"utm,omitempty"`   // query parameters added to URLs: utm_source=…&utm_medium=…
	Track    *bool             `json:"track,omitempty"` // nil: yes
	// Correction replaces Content in Telegram's messages after a correction; nil: there was none.
	Correction *Correction `json:"correction,omitempty"`
}

// Content is a campaign's message: texts with variables, and variants of them in other languages.
type Content = template.Content

// Person is the reader for whom content is rendered.
type Person = template.Person

// QuietHours are hours of the day in which nobody must be disturbed, in the recipient's time zone or a named one.
type QuietHours struct {
	From     string `json:"from"` // HH:MM
	To       string `json:"to"`
	Timezone string `json:"timezone,omitempty"` // "recipient" (default) or an IANA name, which then applies to all recipients
	Fallback string `json:"fallback,omitempty"` // time zone of recipients who have none; empty: that of the local time, or else UTC
}

// Tracked reports whether receivers report that the message was shown and clicked.
func (s *Spec) Tracked() bool { return s.Track == nil || *s.Track }

// Life returns how long a delivery may be retried, from its first attempt on.
func (s *Spec) Life() time.Duration {
	if s.TTL > 0 {
		return time.Duration(s.TTL)
	}
	return DefaultTTL
}

// Urgency returns how soon a provider should wake a device.
func (s *Spec) Urgency() push.Urgency {
	if s.Priority == "" {
		return push.UrgencyNormal
	}
	return s.Priority
}

// Render returns the content for one person.
func (s *Spec) Render(p Person, ch push.Channel) push.Content {
	p.Variables = s.Variables
	c := s.Content.Render(p, ch, s.UTM)
	if k := s.Correction; k != nil && ch == correctable {
		p.Variables = k.Variables
		was := c.Telegram
		c = k.Content.Render(p, ch, s.UTM)
		withMediaOf(&c.Telegram, &was)
	}
	return c
}

// Says returns the content of a channel's messages.
func (s *Spec) Says(ch push.Channel) *Content {
	if s.Correction != nil && ch == correctable {
		return &s.Correction.Content
	}
	return &s.Content
}

// Check returns an error that names the field if the spec cannot be sent.
func (s *Spec) Check(now, sendAt time.Time) error {
	if utf8.RuneCountInString(s.Name) > MaxName || !utf8.ValidString(s.Name) {
		return notification.BadField("name", "must be text of at most %d characters", MaxName)
	}
	if err := s.Content.Check("content"); err != nil {
		return err
	}
	if err := s.Variables.Check("variables"); err != nil {
		return err
	}
	if err := s.checkVariants(); err != nil {
		return err
	}
	if err := s.checkLocal(now); err != nil {
		return err
	}
	if err := s.Audience.Check("audience"); err != nil {
		return err
	}
	for i, ch := range s.Audience.Channels {
		if !slices.Contains(push.Channels(), ch) {
			return notification.BadField(fmt.Sprintf("audience.channels[%d]", i), "channel %s cannot be sent to by this server", ch)
		}
		if ch == push.LiveActivityStart && s.Content.Activity == nil && s.Template == "" {
			return notification.BadField("content.live_activity", "is required: it says what starts on channel %s", ch)
		}
	}
	if s.Content.Title == "" && s.Content.Body == "" && !slices.Equal(s.Audience.Channels, []push.Channel{push.Telegram}) {
		return notification.BadField("audience.channels", "must be telegram alone: without title and body the sticker is all, and no other channel shows it")
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
	case s.Decides() && !s.Expires.IsZero() && !s.Expires.After(begin.Add(time.Duration(s.DecideAfter))):
		return notification.BadField("decide_after", "ends after expires_at: nothing could be sent to the rest any more")
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
	if _, err := s.quietTimes(); err != nil {
		return err
	}
	return s.checkFallback()
}

// Rate is a number of sends per second. In JSON it is like "25/s"; 0 means not set.
type Rate float64

// ParseRate parses "25/s", "100/m" or "1000/h".
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

// number formats a number with at most two decimals.
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

// Duration is a duration in the API's form: "30s", "8h", "7d", or whole seconds.
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
