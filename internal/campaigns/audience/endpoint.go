package audience

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"godwit.dev/godwit/internal/campaigns/quiet"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/push"
)

// Limits of an endpoint. Tags and attribute names are indexed by number, so each app may have a limited set of them: see MaxTagNames and
// MaxAttributeNames.
const (
	MaxTags           = 100 // of one endpoint
	MaxTagBytes       = 64
	MaxAttributes     = 64 // of one endpoint
	MaxAttributeName  = 64
	MaxAttributeBytes = 512    // of a text
	MaxTagNames       = 10_000 // different ones in an app
	MaxAttributeNames = 1000   // different ones in an app
	MaxReason         = 200    // bytes of the reason why an endpoint is disabled
	maxLocale         = 35     // no useful BCP 47 tag is longer
)

// Status is the state that determines whether an endpoint gets messages.
type Status string

// Statuses.
const (
	Active   Status = "active"
	Disabled Status = "disabled" // gets no messages: a provider or a person has disabled it; see DisabledReason
)

// Endpoint is a push address of a recipient or of an anonymous subscriber.
type Endpoint struct {
	Number         int64 // assigned by the store, ascending, never reused: the cursor of lists, and the reference in deliveries
	ID             ID    // what the outside calls it
	App            string
	Channel        push.Channel
	Recipient      string          // empty: an anonymous subscriber
	Address        json.RawMessage // in the normal form that NormalAddress returns
	Tags           []string        // sorted
	Attributes     Attributes
	Locale         string // BCP 47, like nb-NO; empty: unknown
	Timezone       string // IANA, like Europe/Oslo; empty: unknown
	Status         Status
	DisabledReason string
	CreatedAt      time.Time
	UpdatedAt      time.Time
	LastSeenAt     time.Time // last registration or other sign of use; zero: never
	Token          TokenHash // hash of the manage token; zero: there is none
}

// EndsWith reports whether to disable an endpoint whose address was found gone at a time: yes, unless it is disabled already or has
// registered since. With a zero time, the time is unknown and counts as later.
func (e *Endpoint) EndsWith(gone time.Time) bool {
	return e.Status != Disabled && (gone.IsZero() || !e.LastSeenAt.After(gone))
}

// Check validates an endpoint and converts it to its normal form: the address compact, the tags sorted and without duplicates.
func (e *Endpoint) Check() error {
	address, err := NormalAddress(e.Channel, e.Address)
	if err != nil {
		return err
	}
	e.Address = address
	return e.CheckBesideAddress()
}

// CheckBesideAddress is Check without the address: a former version may have allowed the stored one.
func (e *Endpoint) CheckBesideAddress() (err error) {
	switch {
	case e.Recipient != "":
		if err := notification.CheckName("recipient", e.Recipient); err != nil {
			return err
		}
	case e.Channel == push.Live:
		return notification.BadField("recipient", "is required: channel live reaches a recipient's mailbox")
	}
	if e.Tags, err = normalTags(e.Tags); err != nil {
		return err
	}
	e.follow()
	if err := e.Attributes.check(); err != nil {
		return err
	}
	if err := checkLocale(e.Locale); err != nil {
		return err
	}
	return checkTimezone(e.Timezone)
}

func normalTags(tags []string) ([]string, error) {
	if len(tags) > MaxTags {
		return nil, notification.BadField("tags", "has %d members; at most %d are allowed", len(tags), MaxTags)
	}
	for _, t := range tags {
		if err := checkTag("tags", t); err != nil {
			return nil, err
		}
	}
	if tags == nil {
		return nil, nil
	}
	tags = slices.Clone(tags)
	slices.Sort(tags)
	return slices.Compact(tags), nil
}

// CheckTag validates a tag.
func CheckTag(tag string) error { return checkTag("tags", tag) }

// checkTag validates a tag. A tag must not contain the characters that separate tags in a CSV cell.
func checkTag(field, tag string) error {
	switch {
	case tag == "" || strings.TrimSpace(tag) != tag:
		return notification.BadField(field, "%.70q is no tag: it is empty or has space around it", tag)
	case len(tag) > MaxTagBytes:
		return notification.BadField(field, "%.20q… has %d bytes; at most %d are allowed", tag, len(tag), MaxTagBytes)
	case !utf8.ValidString(tag) || strings.ContainsFunc(tag, unicode.IsControl) || strings.ContainsAny(tag, ",;|"):
		return notification.BadField(field, "%q is no tag: it contains a control character or one of , ; |", tag)
	}
	return nil
}

func checkLocale(s string) error {
	if len(s) > maxLocale || strings.ContainsFunc(s, func(r rune) bool {
		return r != '-' && r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}) {
		return notification.BadField("locale", "%.40q is not a language like fr or nb-NO", s)
	}
	return nil
}

func checkTimezone(s string) error {
	if s == "" {
		return nil
	}
	_, err := quiet.CheckZone("timezone", s)
	return err
}

// Reason truncates the reason why an endpoint is disabled to MaxReason bytes.
func Reason(s string) string {
	if len(s) > MaxReason {
		s = strings.ToValidUTF8(s[:MaxReason-3], "") + "…"
	}
	return s
}

// Registration is a request to create or renew an endpoint.
type Registration struct {
	// Endpoint has the given fields, validated. If an endpoint with this address exists, its stored value replaces every field that is
	// empty here, or nil if an empty value has a meaning.
	Endpoint Endpoint
	// Dropped describes the removed hints about the person, such as an unknown time zone: see DropUnknownHints.
	Dropped []string
	// Trusted callers may change any endpoint with this address. Others have to prove that they hold it: see SameHolder.
	Trusted bool
}

// Registered is the result of a registration.
type Registered struct {
	Endpoint Endpoint
	Created  bool
	Err      error // the other registrations are independent of it
}

// ErrTaken reports that another subscriber holds the address, or that the id belongs to another address.
var ErrTaken = errors.New("the address or id belongs to another endpoint")

// leaveOwner removes the owner's data, because another person uses the device now. The new owner inherits nothing, and the former owner's
// manage token becomes invalid.
func (e *Endpoint) leaveOwner() {
	e.Tags, e.Attributes, e.Locale, e.Timezone, e.Token = nil, nil, "", "", TokenHash{}
}

// GiveTo gives the endpoint to another owner, who inherits nothing from the former one; apply further changes afterwards. Without a new
// owner (""), the endpoint keeps everything but the manage token.
func (e *Endpoint) GiveTo(recipient string) {
	switch {
	case e.Recipient == "" || recipient == e.Recipient:
	case recipient == "":
		e.Token = TokenHash{}
	default:
		e.leaveOwner()
	}
	e.Recipient = recipient
}

// Renew updates an endpoint by a registration of its address, which also activates a disabled one.
func (e *Endpoint) Renew(r *Registration, now time.Time) error {
	n := &r.Endpoint
	if !r.Trusted && !SameHolder(e.Channel, e.Address, n.Address) {
		return ErrTaken
	}
	e.Address, e.Status, e.DisabledReason = n.Address, Active, ""
	if e.Recipient != "" && n.Recipient != "" && e.Recipient != n.Recipient {
		e.leaveOwner()
	}
	if n.Tags != nil {
		e.Tags = n.Tags
	}
	if n.Attributes != nil {
		e.Attributes = n.Attributes
	}
	for _, f := range []struct{ to, from *string }{{&e.Recipient, &n.Recipient}, {&e.Locale, &n.Locale}, {&e.Timezone, &n.Timezone}} {
		if *f.from != "" {
			*f.to = *f.from
		}
	}
	// A back end's registration does not invalidate the subscriber's manage token. A visitor who has the token of a recipient's phone does
	// not become that recipient.
	stranger := !r.Trusted && n.Recipient == "" && e.Recipient != "" && e.Channel != push.WebPush
	if !stranger && (e.Token == (TokenHash{}) || !r.Trusted && n.Token != (TokenHash{})) {
		e.Token = n.Token
	}
	if !n.CreatedAt.IsZero() && n.CreatedAt.Before(e.CreatedAt) {
		e.CreatedAt = n.CreatedAt
	}
	if seen := n.SeenAt(now); seen.After(e.LastSeenAt) {
		e.LastSeenAt = seen
	}
	e.UpdatedAt = now
	return nil
}

// Begin sets the times and the status of a new endpoint. An import may have set its times; none is in the future.
func (e *Endpoint) Begin(now time.Time) {
	if e.CreatedAt.IsZero() || e.CreatedAt.After(now) {
		e.CreatedAt = now
	}
	e.Status, e.UpdatedAt, e.LastSeenAt = Active, now, e.SeenAt(now)
}

// SeenAt returns when the holder of a registered address was last seen: now, unless an import knows an earlier time.
func (e *Endpoint) SeenAt(now time.Time) time.Time {
	if e.LastSeenAt.IsZero() || e.LastSeenAt.After(now) {
		return now
	}
	return e.LastSeenAt
}

func among[T comparable](list []T, v T) bool { return len(list) == 0 || slices.Contains(list, v) }

func hasAny(have, want []string) bool {
	return slices.ContainsFunc(want, func(t string) bool { return slices.Contains(have, t) })
}

func hasAll(have, want []string) bool {
	for _, t := range want {
		if !slices.Contains(have, t) {
			return false
		}
	}
	return true
}
