package notification

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// FieldError is an error in the input: it names the field as in the public contract, and describes the fault.
type FieldError struct {
	Field   string
	Problem string
	Lapsed  bool // the error depends on the time or on the app's settings: the same input may have been valid before

	format string
	args   []any
}

// Parts returns the text of the problem and what was put into it, for those who say it in another language; "": only Problem is known.
func (e *FieldError) Parts() (format string, args []any) { return e.format, e.args }

func (e *FieldError) Error() string { return e.Field + ": " + e.Problem }

// Clip shortens a client's text before it is shown in an answer.
func Clip(s string) string {
	const most = 100
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// BadField makes the error for invalid input in a field.
func BadField(field, format string, args ...any) error {
	return &FieldError{Field: field, Problem: fmt.Sprintf(format, args...), format: format, args: args}
}

// LapsedField makes the error for invalid input that may have been valid at another time or with other settings.
func LapsedField(field, format string, args ...any) error {
	return &FieldError{Field: field, Problem: fmt.Sprintf(format, args...), Lapsed: true, format: format, args: args}
}

// IsLapsed reports whether an error depends on the time or on settings, or on data that cannot be read now.
func IsLapsed(err error) bool {
	var bad *FieldError
	return err != nil && (!errors.As(err, &bad) || bad.Lapsed)
}

// Trace is the trace context of a publish, in the form of W3C's headers traceparent and tracestate.
type Trace struct{ Parent, State string }

// Draft is a publish as the back end sent it, before the rules are applied.
type Draft struct {
	To          []string
	ID          string
	Fresh       bool // ID was made for this publish, so that it cannot be a duplicate
	Content     Content
	TTL         time.Duration // 0: not given
	ExpiresAt   time.Time
	SendAt      time.Time
	CollapseKey string
	Priority    Priority
	Ack         AckMode
	Escalate    []Step
	ReplyBy     time.Duration // 0: not asked
	DigestKey   string        // with which others the notification gathers, if its category gathers; empty: the category's settings say
	Alone       bool          // the notification does not gather, whatever its category says

	Inbox   *bool         // whether inboxes keep it; nil: its category decides
	Keep    time.Duration // how long; 0: not given
	Actions []Action      // what a kept one offers

	Phones json.RawMessage // what phones alone get: an object with fcm, apns and live_activity, checked; nil: nothing

	Template  string            // the template that makes the content; empty: Content is given
	Variables map[string]string // of the template
	Locale    string            // language for sessions, and for endpoints without a known language; empty: the template's own

	Trace Trace // empty: its publisher said nothing
}

// Check applies the rules of a publish at the time now and returns the notification that all recipients share. It does not check
// recipients, for which callers use CheckName one by one: an invalid one in a list fails alone. newID makes an id if there is none. With an
// error that has lapsed (IsLapsed) it also returns the notification, by which a repeated publish can be recognised.
func (d *Draft) Check(app string, now time.Time, newID func() string) (*Notification, error) {
	switch {
	case len(d.To) == 0:
		return nil, BadField("to", "is required: name one recipient, or a list of up to %d", MaxRecipients)
	case len(d.To) > MaxRecipients:
		return nil, BadField("to", "has %d recipients; at most %d are allowed", len(d.To), MaxRecipients)
	case d.ReplyBy != 0 && d.Ack == AckNone:
		return nil, BadField("reply_by", "asks for a reply, and ack none ends a notification before there can be one")
	}
	if d.ID == "" {
		d.ID = newID()
	} else if err := CheckName("id", d.ID); err != nil {
		return nil, err
	}
	if d.CollapseKey != "" {
		if err := CheckName("collapse_key", d.CollapseKey); err != nil {
			return nil, err
		}
	}
	if d.DigestKey != "" {
		if err := checkDigestKey(d.DigestKey); err != nil {
			return nil, err
		}
	}
	if err := d.Content.check(); err != nil {
		return nil, err
	}
	n := &Notification{
		App: app, ID: d.ID, Content: d.Content, Priority: d.Priority, Ack: d.Ack, CollapseKey: d.CollapseKey,
		CreatedAt: now,
	}
	if d.SendAt.After(now) {
		if d.SendAt.Sub(now) > MaxTTL {
			return nil, BadField("send_at", "is more than %s ahead", days(MaxTTL))
		}
		n.SendAt = d.SendAt
	}
	err := d.setExpiry(n)
	if err == nil {
		err = d.setSteps(n)
	}
	if err == nil {
		err = d.setInbox(n)
	}
	if err != nil && !IsLapsed(err) {
		return nil, err
	}
	if err == nil && d.Template == "" && d.Content.Empty() { // earlier versions stored such ones, so a repeated publish may be a duplicate
		err = LapsedField("title", "is missing, and so are body, category and data: an empty notification tells its recipient nothing")
	}
	return n, err
}

func checkDigestKey(key string) error {
	if len(key) > MaxNameBytes {
		return BadField("digest_key", "has %d bytes; at most %d are allowed", len(key), MaxNameBytes)
	}
	return CheckText("digest_key", key)
}

func (d *Draft) setExpiry(n *Notification) error {
	from := n.CreatedAt
	if !n.SendAt.IsZero() {
		from = n.SendAt
	}
	switch {
	case d.TTL != 0 && !d.ExpiresAt.IsZero():
		return BadField("expires_at", "give either ttl or expires_at, not both")
	case d.TTL < 0:
		return BadField("ttl", "must be positive")
	case d.TTL > MaxTTL:
		return BadField("ttl", "is more than %s", days(MaxTTL))
	case d.TTL > 0:
		n.ExpiresAt = from.Add(d.TTL)
	case d.ExpiresAt.IsZero():
		n.ExpiresAt = from.Add(DefaultTTL)
	case !d.ExpiresAt.After(from):
		return LapsedField("expires_at", "lies in the past")
	case d.ExpiresAt.Sub(from) > MaxTTL:
		return BadField("expires_at", "is more than %s ahead", days(MaxTTL))
	default:
		n.ExpiresAt = d.ExpiresAt
	}
	if d.ReplyBy != 0 {
		if err := d.setReplyBy(n, from); err != nil {
			return err
		}
	}
	n.CreatedAt, n.ExpiresAt = n.CreatedAt.Truncate(time.Millisecond), n.ExpiresAt.Truncate(time.Millisecond)
	if !n.SendAt.IsZero() {
		n.SendAt = n.SendAt.Truncate(time.Millisecond)
	}
	if d.ReplyBy != 0 {
		n.ReplyBy = n.ExpiresAt
	}
	return nil
}

// setReplyBy makes a notification that asks for a reply expire when the reply is due, unless it expires sooner.
func (d *Draft) setReplyBy(n *Notification, from time.Time) error {
	switch {
	case d.ReplyBy < 0:
		return BadField("reply_by", "must be positive")
	case d.ReplyBy > MaxTTL:
		return BadField("reply_by", "is more than %s", days(MaxTTL))
	}
	due := from.Add(d.ReplyBy)
	if d.TTL == 0 && d.ExpiresAt.IsZero() || due.Before(n.ExpiresAt) {
		n.ExpiresAt = due
	}
	return nil
}

// GuessType returns the content type of data that was sent without one.
func GuessType(data []byte) string {
	if json.Valid(data) {
		return "application/json"
	}
	return "application/octet-stream"
}

// Empty reports whether there is nothing that a recipient could be shown or a program could act on.
func (c *Content) Empty() bool {
	return c.Title == "" && c.Body == "" && c.Category == "" && len(c.Data) == 0 && len(c.Push) == 0
}

func (c *Content) check() error {
	for _, f := range []struct{ name, text string }{{"title", c.Title}, {"body", c.Body}, {"category", c.Category}} {
		if !utf8.ValidString(f.text) {
			return BadField(f.name, "is not valid UTF-8")
		}
	}
	if size := len(c.Title) + len(c.Body) + len(c.Category) + len(c.Data); size > MaxRequestBytes {
		return BadField("data", "title, body, category and data together have %d bytes; at most %d are allowed", size, MaxRequestBytes)
	}
	if c.ContentType == "" && len(c.Data) > 0 {
		c.ContentType = GuessType(c.Data)
	}
	if strings.ContainsFunc(c.ContentType, func(r rune) bool { return r < ' ' || r > '~' }) || len(c.ContentType) > MaxNameBytes {
		return BadField("content_type", "must be a media type of at most %d ASCII characters", MaxNameBytes)
	}
	if !IsJSON(c.ContentType) || len(c.Data) == 0 {
		return nil
	}
	if err := CheckJSON("data", c.Data); err != nil {
		return err
	}
	if !json.Valid(c.Data) {
		return BadField("data", "is not valid JSON although content_type is %s", c.ContentType)
	}
	return nil
}

// IsJSON reports whether a content type is JSON, so that data can become a part of a JSON frame unchanged.
func IsJSON(contentType string) bool {
	base, _, _ := strings.Cut(contentType, ";")
	base = strings.TrimSpace(base)
	return base == "application/json" || strings.HasSuffix(base, "+json")
}

// CheckName applies the rule for names: 1 to 128 bytes of A-Za-z0-9._:@+-, except "." and "..", which stand for other paths in a URL,
// however they are escaped there (WHATWG URL, "single-dot" and "double-dot URL path segment").
func CheckName(field, s string) error {
	if s == "." || s == ".." {
		return BadField(field, "is %s, which stands for another path in a URL; no name is . or ..", s)
	}
	return CheckPart(field, s)
}

// CheckPart applies the rule for the first bytes of a name.
func CheckPart(field, s string) error {
	if s == "" {
		return BadField(field, "is required")
	}
	if len(s) > MaxNameBytes {
		return BadField(field, "has %d bytes; at most %d are allowed", len(s), MaxNameBytes)
	}
	for i := range len(s) {
		if !nameByte[s[i]] {
			c, _ := utf8.DecodeRuneInString(s[i:]) // bytes that are no character show as the replacement character
			return BadField(field, "contains %q at byte %d; allowed are A-Z a-z 0-9 . _ : @ + -", c, i+1)
		}
	}
	return nil
}

var nameByte = func() (t [256]bool) {
	for _, c := range "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:@+-" {
		t[c] = true
	}
	return t
}()

// CheckText refuses text that some stores cannot store: with NUL, or with bytes that are not UTF-8.
func CheckText(field, s string) error {
	if strings.IndexByte(s, 0) >= 0 || !utf8.ValidString(s) {
		return BadField(field, "contains NUL or bytes that are not UTF-8")
	}
	return nil
}

// ParseDuration reads a duration in the form of the public contract: "30s", "1h30m", "7d", or whole seconds.
func ParseDuration(s string) (time.Duration, error) {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		if n > int64(1<<63-1)/int64(time.Second) || n < 0 {
			return 0, fmt.Errorf("duration %s is out of range", s)
		}
		return time.Duration(n) * time.Second, nil
	}
	if num, ok := strings.CutSuffix(s, "d"); ok {
		if n, err := strconv.ParseFloat(num, 64); err == nil && n >= 0 && n <= 36500 {
			return time.Duration(n * float64(24*time.Hour)), nil
		}
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%q is not a duration; write it like 30s, 24h, 7d, or as whole seconds", s)
	}
	return d, nil
}

func days(d time.Duration) string { return strconv.Itoa(int(d/(24*time.Hour))) + " days" }
