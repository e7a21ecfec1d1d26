package apns

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"time"

	"godwit.dev/godwit/internal/sending/provider"
	"godwit.dev/godwit/internal/sending/push"
)

// Reasons that need different treatment
// (https://developer.apple.com/documentation/usernotifications/handling-notification-responses-from-apns).
const (
	badDevice      = "BadDeviceToken"
	otherTopic     = "DeviceTokenNotForTopic"
	unregistered   = "Unregistered"
	expiredDevice  = "ExpiredToken"
	expiredToken   = "ExpiredProviderToken"
	tooManyTokens  = "TooManyProviderTokenUpdates" // no credential
	tooManyAtOne   = "TooManyRequests"
	idle           = "IdleTimeout"
	maxReason      = 64
	deviceRest     = time.Minute // pause for a device that gets too many messages, if APNs states no time
	maxAnswerBytes = 4 << 10
)

// settings are the reasons, in addition to denials, that concern the settings and not one message or device.
var settings = map[string]bool{"BadTopic": true, "MissingTopic": true, "TopicDisallowed": true, "BadCertificate": true, "BadCertificateEnvironment": true}

// denials are the reasons with which APNs ends a connection because of invalid credentials.
var denials = map[string]bool{
	expiredToken: true, "InvalidProviderToken": true, "MissingProviderToken": true, "BadCertificate": true,
	"BadCertificateEnvironment": true, "BadEnvironmentKeyIdInToken": true, "UnrelatedKeyIdInToken": true,
}

// answer is the meaningful part of APNs' answer. The rest is never shown, since it may contain the device's token.
type answer struct {
	status int // 0: APNs has ended the connection instead
	reason string
	since  time.Time // since when the device's token has been invalid; zero: unknown
	after  time.Duration
	raw    provider.Answer
}

// readAnswer parses an answer; unreadable parts are left empty.
func readAnswer(got *provider.Answer, now time.Time) answer {
	a := answer{raw: *got, status: got.Status, after: provider.RetryAfter(got.Header, now)}
	if got.Status != http.StatusOK {
		a.reason, a.since = readReason(got.Body)
	}
	return a
}

// readFarewell parses the reason with which APNs ends a connection.
func readFarewell(said string) (a answer) {
	a.reason, _ = readReason([]byte(said))
	return a
}

func readReason(body []byte) (reason string, since time.Time) {
	var v struct {
		Reason    string      `json:"reason"`
		Timestamp json.Number `json:"timestamp"`
	}
	if len(body) > maxAnswerBytes || json.Unmarshal(body, &v) != nil {
		return "", time.Time{}
	}
	if len(v.Reason) <= maxReason && strings.Trim(v.Reason, letters) == "" {
		reason = v.Reason
	}
	if ms, err := v.Timestamp.Int64(); err == nil && ms > 0 && ms < math.MaxInt64/int64(time.Millisecond) {
		since = time.UnixMilli(ms)
	}
	return reason, since
}

const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// denied reports whether APNs has refused our credentials.
func (a answer) denied() bool { return denials[a.reason] }

// says words an answer.
func (a answer) says(what string) string {
	did, reason := fmt.Sprintf("answered %d", a.status), a.reason
	if a.status == 0 {
		did = "ended the connection"
	}
	if reason == "" {
		reason = "without a reason"
	}
	return fmt.Sprintf("%s %s %s: %s", name, did, reason, what)
}

// judge converts the answer to a message to an error.
func (s *Sender) judge(a answer, m *message) error {
	switch a.reason { // these reasons need more than the status
	case unregistered, expiredDevice:
		if a.status == http.StatusGone {
			return &push.GoneError{Since: a.since, Reason: a.says("the app was removed from the device, or has another token by now")}
		}
	case badChannel, noChannel:
		return &push.GoneError{Reason: a.says("there is no such broadcast channel for " + s.cfg.Topic + " in " + s.cfg.Environment)}
	case tooManyChannel:
		return &push.PermanentError{Reason: a.says("an app has at most 10,000 broadcast channels: delete those of events that are over")}
	case notEnabled:
		return &push.PermanentError{Reason: a.says("enable the broadcast capability of the app's id at developer.apple.com, Identifiers, Push Notifications")}
	case badDevice, otherTopic:
		// If one device gets this answer, its token is wrong; if all do, the settings are wrong.
		return &push.ObjectionError{Scope: m.scope, Ended: true, Reason: a.says(fmt.Sprintf(
			"no such device for %s in %s. If many are told so: is %s the right environment, and %s the right topic? %s", s.cfg.Topic, s.cfg.Environment, s.cfg.Environment, s.cfg.Topic, s.hint()))}
	case tooManyAtOne:
		after := a.after
		if after == 0 {
			after = deviceRest
		}
		return &push.RetryError{After: after, Reason: a.says("this device gets too many")}
	case tooManyTokens:
		s.signer.tooMany(s.cfg.Now())
		return &push.RetryError{After: a.after, Credential: true, Scope: m.scope, Reason: a.says("several servers may use this key; ours keeps its token")}
	case idle:
		return &push.RetryError{After: a.after, Reason: a.says("the request took too long")}
	}
	return s.byStatus(a, m)
}

func (s *Sender) byStatus(a answer, m *message) error {
	const settingsDiffer = "the key, its id, the team or the topic is not what Apple knows"
	switch {
	case a.denied(), settings[a.reason]:
		return &push.ConfigError{Scope: m.scope, Reason: a.says(settingsDiffer)}
	case (a.status == http.StatusUnauthorized || a.status == http.StatusForbidden) && !a.raw.Page():
		return &push.ObjectionError{Scope: m.scope, Reason: a.says(settingsDiffer)}
	case a.status == http.StatusServiceUnavailable:
		return &push.RetryError{After: a.after, Credential: true, Scope: m.scope, Reason: a.says("overloaded")}
	case a.reason != "" && a.status >= 400 && a.status < 500 && a.status != http.StatusTooManyRequests && a.status != http.StatusRequestEntityTooLarge:
		return &push.PermanentError{Reason: a.says("the message is refused")}
	}
	if a.status >= 200 && a.status < 300 && len(bytes.TrimSpace(a.raw.Body)) > 0 { // Apple sends no body for an accepted message
		return &push.RetryError{Scope: m.scope, Reason: a.says("something else may answer in its place")}
	}
	table := provider.Table{Name: name, Scope: m.scope, Quiet: true, Denied: func(_ int, reason string) error {
		return &push.ObjectionError{Scope: m.scope, Reason: reason, Shared: push.Host}
	}}
	err := table.Judge(&a.raw, s.cfg.Now())
	var gone *push.GoneError
	if errors.As(err, &gone) { // for a device that is gone, Apple always states a reason
		return &push.RetryError{Scope: m.scope, Reason: a.says("which makes no sense here")}
	}
	return err
}

// hint names the most frequent error if many devices are unknown.
func (s *Sender) hint() string {
	if s.cfg.Environment == Sandbox {
		return "apps from TestFlight and the App Store have tokens of production"
	}
	return "apps from Xcode have tokens of the sandbox"
}
