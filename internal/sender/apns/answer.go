package apns

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strings"
	"sync"
	"time"

	"godwit.dev/godwit/internal/push"
	"godwit.dev/godwit/internal/sender/provider"
)

// Reasons that are told apart
// (https://developer.apple.com/documentation/usernotifications/handling-notification-responses-from-apns).
const (
	badDevice      = "BadDeviceToken"
	otherTopic     = "DeviceTokenNotForTopic"
	unregistered   = "Unregistered"
	expiredDevice  = "ExpiredToken"
	expiredToken   = "ExpiredProviderToken"
	tooManyTokens  = "TooManyProviderTokenUpdates" //nolint:gosec // no credential
	tooManyAtOne   = "TooManyRequests"
	idle           = "IdleTimeout"
	maxReason      = 64
	deviceRest     = time.Minute // of a device that gets too many, where APNs does not say for how long
	maxAnswerBytes = 4 << 10
)

// settings are the reasons beside 401 and 403 that have nothing to do with one message or device.
var settings = map[string]bool{"BadTopic": true, "MissingTopic": true, "TopicDisallowed": true, "BadCertificate": true, "BadCertificateEnvironment": true}

// denials are the reasons for which APNs ends a connection whose credentials it does not take.
var denials = map[string]bool{
	expiredToken: true, "InvalidProviderToken": true, "MissingProviderToken": true, "Forbidden": true, "BadCertificate": true,
	"BadCertificateEnvironment": true, "BadEnvironmentKeyIdInToken": true, "UnrelatedKeyIdInToken": true,
}

// answer is what APNs said, as far as it has a meaning. Nothing else of it is shown: it may repeat the device's token.
type answer struct {
	status int // 0: it has ended the connection instead
	reason string
	since  time.Time // from when on the device's token has been invalid; zero: not said
	after  time.Duration
}

// readAnswer reads an answer; what cannot be read of it is absent.
func readAnswer(got *provider.Answer, now time.Time) answer {
	a := answer{status: got.Status, after: provider.RetryAfter(got.Header, now)}
	if got.Status != http.StatusOK {
		a.reason, a.since = readReason(got.Body)
	}
	return a
}

// readFarewell reads what APNs says when it ends a connection.
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

// denied reports whether our credentials were refused.
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

// judge tells what an answer means.
func (s *Sender) judge(a answer) error {
	switch a.reason { // some have a meaning of their own
	case unregistered, expiredDevice:
		if a.status == http.StatusGone {
			return &push.GoneError{Since: a.since, Reason: a.says("the app was removed from the device, or has another token by now")}
		}
	case badDevice, otherTopic:
		return &push.GoneError{Reason: a.says("no such device for " + s.cfg.Topic + " in " + s.cfg.Environment + "; " + s.hint())}
	case tooManyAtOne:
		after := a.after
		if after == 0 {
			after = deviceRest
		}
		return &push.RetryError{After: after, Reason: a.says("this device gets too many")}
	case tooManyTokens:
		s.signer.tooMany(s.cfg.Now())
		return &push.RetryError{After: a.after, Credential: true, Scope: s.scope, Reason: a.says("several servers may use this key; ours keeps its token")}
	case idle:
		return &push.RetryError{After: a.after, Reason: a.says("the request took too long")}
	}
	return s.byStatus(a)
}

func (s *Sender) byStatus(a answer) error {
	switch {
	case a.status == http.StatusOK:
		return nil
	case a.denied(), settings[a.reason], a.status == http.StatusUnauthorized, a.status == http.StatusForbidden:
		return &push.ConfigError{Scope: s.scope, Reason: a.says("the key, its id, the team or the topic is not what Apple knows")}
	case a.status == http.StatusServiceUnavailable:
		return &push.RetryError{After: a.after, Credential: true, Scope: s.scope, Reason: a.says("overloaded")}
	case a.status == http.StatusTooManyRequests:
		return &push.RetryError{After: a.after, Scope: s.scope, Reason: a.says("too many requests")}
	case a.status >= 500:
		return &push.RetryError{After: a.after, Reason: a.says("it failed")}
	case a.status == http.StatusRequestEntityTooLarge:
		return &push.PermanentError{Reason: a.says("the message is too large")}
	}
	return &push.PermanentError{Reason: a.says("the message is refused")}
}

// hint is what is mostly wrong where many devices are not known.
func (s *Sender) hint() string {
	if s.cfg.Environment == Sandbox {
		return "apps from TestFlight and the App Store have tokens of production"
	}
	return "apps from Xcode have tokens of the sandbox"
}

const (
	// lastAnswers is how many answers about devices are looked at together: when more than half of them say that there is no
	// such device, it is not the devices.
	lastAnswers = 20
	// verdictHolds is for how long after that no device is taken for gone: what was under way ends so too, and what had
	// been begun when the others were stopped.
	verdictHolds = time.Minute
)

// streak tells devices that are gone from settings under which none is known.
type streak struct {
	mu    sync.Mutex
	last  [lastAnswers]bool // true: no such device
	at    int
	bad   int
	until time.Time // until then the settings are held to be wrong
}

// wrong notes whether a device was not known, and reports whether it is the settings that are wrong. Some time after that
// it counts anew: if a person says that all is right, the devices are wrong.
func (k *streak) wrong(missing bool, now time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if now.Before(k.until) {
		return missing
	}
	if k.last[k.at] {
		k.bad--
	}
	if k.last[k.at] = missing; missing {
		k.bad++
	}
	if k.at = (k.at + 1) % lastAnswers; k.bad <= lastAnswers/2 {
		return false
	}
	k.last, k.bad, k.until = [lastAnswers]bool{}, 0, now.Add(verdictHolds)
	return true
}

// weigh is judge for an answer about a device, which most of the last ones have a say in.
func (s *Sender) weigh(a answer) error {
	missing := a.reason == badDevice || a.reason == otherTopic
	if (missing || a.status == http.StatusOK) && s.streak.wrong(missing, s.cfg.Now()) {
		return &push.ConfigError{Scope: s.scope, Reason: a.says(fmt.Sprintf(
			"so for more than half of %d devices in a row, which is not their fault: is %s the right environment, and %s the right topic? %s",
			lastAnswers, s.cfg.Environment, s.cfg.Topic, s.hint()))}
	}
	return s.judge(a)
}
