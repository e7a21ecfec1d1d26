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

// Limits of an endpoint. Tags and attribute names are indexed by number, so an app has a bounded set of them: see
// MaxTagNames and MaxAttributeNames.
const (
	MaxTags           = 100 // of one endpoint
	MaxTagBytes       = 64
	MaxAttributes     = 64 // of one endpoint
	MaxAttributeName  = 64
	MaxAttributeBytes = 512    // of a text
	MaxTagNames       = 10_000 // different ones in an app
	MaxAttributeNames = 1000   // different ones in an app
	MaxReason         = 200    // bytes of why an endpoint is disabled
	maxLocale         = 35     // by BCP 47 no useful tag is longer
)

// Status says whether messages are sent to an endpoint.
type Status string

// Statuses.
const (
	Active   Status = "active"
	Disabled Status = "disabled" // the provider or somebody has said that it must get nothing; see DisabledReason
)

// Endpoint is a push address of a recipient or of an anonymous subscriber.
type Endpoint struct {
	Number         int64 // given by the store, ascending, never used twice: the cursor of enumerations and the reference in deliveries
	ID             ID    // what the outside calls it
	App            string
	Channel        push.Channel
	Recipient      string          // empty: an anonymous subscriber
	Address        json.RawMessage // in the form that Address makes
	Tags           []string        // sorted
	Attributes     Attributes
	Locale         string // BCP 47, like nb-NO; empty: unknown
	Timezone       string // IANA, like Europe/Oslo; empty: unknown
	Status         Status
	DisabledReason string
	CreatedAt      time.Time
	UpdatedAt      time.Time
	LastSeenAt     time.Time // when it last registered or showed another sign of life; zero: never
	Token          TokenHash // of the manage token; zero: there is none
}

// EndsWith reports whether an active endpoint is to be disabled because its address was found gone at that time: it is,
// unless it has registered since. Zero: the time is unknown, and it is.
func (e *Endpoint) EndsWith(gone time.Time) bool {
	return e.Status != Disabled && (gone.IsZero() || !e.LastSeenAt.After(gone))
}

// Check applies the rules of an endpoint and brings it into its normal form: the address compact, the tags sorted
// and each there once.
func (e *Endpoint) Check() error {
	address, err := NormalAddress(e.Channel, e.Address)
	if err != nil {
		return err
	}
	e.Address = address
	return e.CheckBesideAddress()
}

// CheckBesideAddress is Check without the address. A stored address may be one that a former version allowed.
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

// CheckTag applies the rule for tags.
func CheckTag(tag string) error { return checkTag("tags", tag) }

// checkTag applies the rule for tags: what separates them in a CSV cell cannot be part of one.
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

// Reason shortens the reason for which an endpoint is disabled to MaxReason bytes.
func Reason(s string) string {
	if len(s) > MaxReason {
		s = strings.ToValidUTF8(s[:MaxReason-3], "") + "…"
	}
	return s
}

// Registration is a request to make or renew an endpoint.
type Registration struct {
	// Endpoint has the given fields, checked. If an endpoint of this address exists already, it keeps its own value of
	// every field that is empty here, or nil where an empty value would mean something.
	Endpoint Endpoint
	// Dropped names hints about the person that are unknown here, like a time zone: see DropUnknownHints.
	Dropped []string
	// Trusted callers may change an endpoint of this address, whoever made it. Others have to present its secrets:
	// SameHolder.
	Trusted bool
}

// Registered is the result of a registration.
type Registered struct {
	Endpoint Endpoint
	Created  bool
	Err      error // does not affect the other registrations
}

// ErrTaken says that another subscriber holds the address, or that the id belongs to another address.
var ErrTaken = errors.New("the address or id belongs to another endpoint")

// leaveOwner drops what belongs to the owner, since another person uses the device now. The new owner inherits nothing, and
// the former owner's manage token is void.
func (e *Endpoint) leaveOwner() {
	e.Tags, e.Attributes, e.Locale, e.Timezone, e.Token = nil, nil, "", "", TokenHash{}
}

// GiveTo gives the endpoint to another owner, who inherits nothing from the former one; further changes are applied after that.
// Without an owner ("") it keeps everything but the manage token.
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

// Renew brings an endpoint up to date with a registration of its address, which also wakes it if it was disabled.
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
	// A back end does not lock the subscriber out. A visitor who has the token of a recipient's phone does not become that
	// recipient.
	stranger := !r.Trusted && n.Recipient == "" && e.Recipient != "" && e.Channel != push.WebPush
	if !stranger && (e.Token == (TokenHash{}) || !r.Trusted && n.Token != (TokenHash{})) {
		e.Token = n.Token
	}
	e.UpdatedAt, e.LastSeenAt = now, now
	return nil
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
