// Package push defines messages to external addresses: the content of a message to one endpoint, a provider's answer, and the few outcomes
// of a send.
package push

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"
)

// Channel is a way to reach a recipient without a session.
type Channel string

// Channels. Live is the recipient's mailbox.
const (
	Live    Channel = "live"
	WebPush Channel = "webpush"
	FCM     Channel = "fcm"
	APNs    Channel = "apns"
	// LiveActivityStart reaches devices of Apple that let a message start a Live Activity. LiveActivity are the running ones, which follow
	// an object.
	LiveActivityStart Channel = "liveactivitystart"
	LiveActivity      Channel = "liveactivity"
	Telegram          Channel = "telegram"
	Webhook           Channel = "webhook"
)

// Urgency is how soon a provider should wake a device for a message (RFC 8030, section 5.3).
type Urgency string

// Urgencies, by the priority of a notification: low, normal, high.
const (
	UrgencyLow    Urgency = "low"
	UrgencyNormal Urgency = "normal"
	UrgencyHigh   Urgency = "high"
)

// Content is the content of a message, already in the recipient's language and with its variables filled in.
type Content struct {
	Title    string          `json:"title,omitempty"`
	Body     string          `json:"body,omitempty"`
	Icon     string          `json:"icon,omitempty"`
	Image    string          `json:"image,omitempty"`
	URL      string          `json:"url,omitempty"`
	Category string          `json:"category,omitempty"`
	Data     json.RawMessage `json:"data,omitempty"`
	Telegram TelegramContent `json:"telegram,omitzero"`
	WebPush  WebPushContent  `json:"webpush,omitzero"`
	FCM      FCMContent      `json:"fcm,omitzero"`
	APNs     APNsContent     `json:"apns,omitzero"`
	// Activity makes the message start a Live Activity on the channel for that. Nil: it has none.
	Activity *ActivityContent `json:"live_activity,omitempty"`
}

// DataWithLinks returns a notification's data. If the data is empty or an object, it includes the content that has no field of its own.
func (c *Content) DataWithLinks() []byte {
	links := map[string]string{"url": c.URL, "icon": c.Icon, "image": c.Image}
	maps.DeleteFunc(links, func(_, v string) bool { return v == "" })
	var fields map[string]json.RawMessage
	if len(links) == 0 || len(c.Data) > 0 && json.Unmarshal(c.Data, &fields) != nil {
		return c.Data
	}
	if fields == nil {
		fields = map[string]json.RawMessage{}
	}
	for k, v := range links {
		if _, taken := fields[k]; !taken {
			fields[k], _ = json.Marshal(v) // a string always encodes
		}
	}
	b, err := json.Marshal(fields)
	if err != nil {
		return c.Data
	}
	return b
}

// WebPushContent holds fields for browsers only.
type WebPushContent struct {
	Actions            []Action `json:"actions,omitempty"`
	RequireInteraction bool     `json:"require_interaction,omitempty"`
}

// Action is a button on a notification.
type Action struct {
	Action string `json:"action"`
	Title  string `json:"title"`
	Icon   string `json:"icon,omitempty"`
	URL    string `json:"url,omitempty"`
}

// Request is one message to one endpoint.
type Request struct {
	ID        string // the delivery's id, the same on every attempt: the webhook-id, and the seed of the Topic
	GodwitID  string // the id by which clients deduplicate and acknowledge; empty: ID
	App       string
	Endpoint  string          // its id
	Recipient string          // empty: an anonymous subscriber
	Address   json.RawMessage // as the channel defines it
	Content   Content
	Urgency   Urgency
	Collapse  string // a message replaces earlier ones with the same key, where the channel can do that; empty: ID is the key
	ExpiresAt time.Time
	Track     string // signed token with which the receiver reports shown, clicked and dismissed; empty: not tracked
	AckToken  string // signed token that lets the receiver acknowledge without signing in; empty: it cannot
	Settle    string // the report that acknowledges in addition to clicked and dismissed: shown; empty: none
	Recall    bool   // withdraws the message sent earlier under ID, on channels where a withdrawal is a message (Web Push)
	// Badge is the number for the app's icon, which a number in Content goes before; nil: it stays as it is.
	Badge *int
	// BadgeOnly: the message tells the badge and shows nothing. It has no content.
	BadgeOnly bool
}

// Receipt is the provider's data about a message that it accepted.
type Receipt struct {
	ExternalID string          // the provider's id of the message, needed to take it back
	Address    json.RawMessage // the address to which the endpoint has moved; nil: it has not
}

// RetryError says that the message was certainly not accepted and may be sent again. Without Credential and Scope, only this address has to
// wait: nothing else is sent to it for so long.
type RetryError struct {
	After      time.Duration // the wait that the provider demanded; 0: the caller's own backoff
	Credential bool          // all messages of this Scope have to wait, not this one alone
	Scope      string        // the Pace.Scope that has to wait; without Credential, it is unknown whether the scope or this address alone is meant
	Reason     string
	Plain      string // Reason without the provider's words, for the log; empty: only the error's kind is logged
}

func (e *RetryError) Error() string {
	if e.After > 0 {
		return fmt.Sprintf("%s; again in %s", e.Reason, e.After)
	}
	return e.Reason
}

// GoneError says that the endpoint no longer exists: the caller disables it.
type GoneError struct {
	Reason string
	Since  time.Time // an endpoint registered after this time is a new one and stays enabled; zero: unknown
}

func (e *GoneError) Error() string { return e.Reason }

// ObjectionError says that the provider refused a message, and that its answer fits two causes: this address alone, or
// something that all addresses of Scope share. Package judge compares it with other addresses.
type ObjectionError struct {
	Scope  string // the Pace.Scope of the other addresses with the same credential
	Reason string
	Ended  bool   // if only this address gets the answer, it no longer exists: the caller disables it
	Shared Shared // the cause if other addresses get the same answer
}

func (e *ObjectionError) Error() string { return e.Reason }

// Shared is what the addresses of a scope have in common.
type Shared uint8

// Kinds of Shared.
const (
	Credential Shared = iota // a person has to check it
	Host                     // the host is ill and recovers by itself
)

// MovedError says that the message was not accepted since the endpoint has a new address: the caller sends it there.
type MovedError struct {
	Address json.RawMessage
	Reason  string
}

func (e *MovedError) Error() string { return e.Reason }

// PermanentError says that this message will never be accepted; the endpoint may be fine.
type PermanentError struct{ Reason string }

func (e *PermanentError) Error() string { return e.Reason }

// ConfigError says that the provider refused our credential or settings, in words that can mean nothing else: the endpoint is fine, and
// further messages make it worse. Nothing may use the credential until a person has checked it.
type ConfigError struct {
	Scope  string // the Pace.Scope that has to stop
	Reason string
}

func (e *ConfigError) Error() string { return e.Reason }

// UnknownError says that the message left and that it is unknown whether it was accepted.
type UnknownError struct{ Reason string }

func (e *UnknownError) Error() string { return e.Reason }

// Outcome names a send's outcome in one word, from its error.
func Outcome(err error) string {
	for _, known := range []struct {
		is   func() bool
		name string
	}{
		{func() bool { return err == nil }, "accepted"},
		{is[*RetryError](err), "retry"},
		{is[*GoneError](err), "gone"},
		{is[*ConfigError](err), "config"},
		{is[*UnknownError](err), "unknown"},
	} {
		if known.is() {
			return known.name
		}
	}
	return "failed"
}

// ForLog returns the part of an error that may be logged. Of a provider's answer it returns only the kind, since the text may repeat
// secrets; the app's own admin can read the text.
func ForLog(err error) string {
	if kind := Outcome(err); kind != "failed" {
		return kind
	}
	if is[*PermanentError](err)() {
		return "refused"
	}
	return err.Error()
}

func is[T error](err error) func() bool {
	return func() bool {
		var t T
		return errors.As(err, &t)
	}
}
