package fcm

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"godwit.dev/godwit/internal/push"
	"godwit.dev/godwit/internal/sender/provider"
)

const (
	// quotaWait is how long FCM wants to be left alone after a 429 that does not say
	// (firebase.google.com/docs/cloud-messaging/scale-fcm).
	quotaWait = time.Minute
	// leastWait is the least wait after a 500 or 503 that does not say, and jitter the most that is added to it, so that
	// what failed together does not come back together.
	leastWait = 10 * time.Second
	jitter    = 5 * time.Second
)

// failure is what FCM says in place of a message's name: google.rpc.Status as JSON, with the details that mean something.
type failure struct {
	Status    string // like NOT_FOUND; empty: the answer is none of FCM's
	Message   string
	Code      string // FcmError.errorCode, like UNREGISTERED
	Fields    []string
	OfAPNs    bool   // the objection is Apple's
	OfOne     bool   // a limit of one device or topic
	bad       bool   // 400
	described string // what its violated fields and quotas are said to be
}

// status is the answer as it is written.
type status struct {
	Error struct {
		Status  string `json:"status"`
		Message string `json:"message"`
		Details []struct {
			Type       string `json:"@type"`
			ErrorCode  string `json:"errorCode"`
			Violations []struct {
				Field       string `json:"field"`
				Description string `json:"description"`
			} `json:"fieldViolations"`
			Quotas []struct {
				Subject     string `json:"subject"`
				Description string `json:"description"`
			} `json:"violations"`
		} `json:"details"`
	} `json:"error"`
}

// parseFailure reads an answer. A body that cannot be read means nothing: a proxy's page, say.
func parseFailure(a *provider.Answer) (f failure) {
	var s status
	if json.Unmarshal(a.Body, &s) != nil {
		return f
	}
	e := &s.Error
	f.bad, f.Status, f.Message = a.Status == http.StatusBadRequest, e.Status, e.Message
	told := []string{strings.ToLower(e.Message)}
	for i := range e.Details {
		d := &e.Details[i]
		switch d.Type[strings.LastIndexAny(d.Type, "./")+1:] {
		case "FcmError":
			f.Code = d.ErrorCode
		case "ApnsError":
			f.OfAPNs = true
		case "BadRequest":
			for _, v := range d.Violations {
				f.Fields = append(f.Fields, v.Field)
				f.described += "; " + v.Field + ": " + v.Description
			}
		case "QuotaFailure":
			for _, v := range d.Quotas {
				told = append(told, strings.ToLower(v.Subject), strings.ToLower(v.Description))
				f.described += "; " + v.Description
			}
		}
	}
	for _, text := range told {
		f.OfOne = f.OfOne || strings.Contains(text, "device") || strings.Contains(text, "topic")
	}
	return f
}

// ofToken reports whether the token is what is wrong with a message.
func (f *failure) ofToken() bool {
	for _, field := range f.Fields {
		if field == "message.token" {
			return true
		}
	}
	return false
}

// ambiguous reports whether the answer may mean a malformed token as well as a message that FCM does not take.
func (f *failure) ambiguous() bool {
	return f.bad && len(f.Fields) == 0 && (f.Code == "INVALID_ARGUMENT" || f.Code == "" && f.Status == "INVALID_ARGUMENT")
}

// judge tells what an answer other than 2xx means. It knows of nothing but the answer: what is asked next is Send's.
func (s *Sender) judge(a *provider.Answer, f *failure, device string) error {
	project := s.cfg.Account.Project
	says := func(what string) string {
		return fmt.Sprintf("FCM answered %d: %s%s", a.Status, what, s.said(f, device))
	}
	after := provider.RetryAfter(a.Header, s.cfg.Now())
	switch a.Status {
	case http.StatusBadRequest:
		if f.ofToken() {
			return &push.GoneError{Reason: says("the token is not one")}
		}
		return &push.PermanentError{Reason: says("the message is refused")}
	case http.StatusUnauthorized:
		if f.Code == "THIRD_PARTY_AUTH_ERROR" {
			return &push.ConfigError{Scope: project + f.party(), Reason: says("the project's own credentials for " + f.party()[1:] + " are missing or refused: see the Firebase console, Project settings, Cloud Messaging")}
		}
		return &push.ConfigError{Scope: project, Reason: says("the access token is refused")}
	case http.StatusForbidden:
		if f.Code == "SENDER_ID_MISMATCH" {
			return &push.GoneError{Reason: says("the token is another project's")}
		}
		return &push.ConfigError{Scope: project, Reason: says("the service account may not send for project " + project)}
	case http.StatusNotFound:
		if f.Code == "UNREGISTERED" {
			return &push.GoneError{Reason: says("the token has ended")}
		}
		return &push.ConfigError{Scope: project, Reason: says("there is no project " + project + ", or its Cloud Messaging API is switched off")}
	case http.StatusTooManyRequests:
		if after == 0 {
			after = quotaWait
		}
		if f.OfOne {
			return &push.RetryError{After: after, Reason: says("too many messages to this device")}
		}
		return &push.RetryError{After: after, Credential: true, Scope: project, Reason: says("too many messages of the project")}
	case http.StatusServiceUnavailable:
		return &push.RetryError{After: orBackoff(after), Scope: project, Reason: says("overloaded")}
	}
	switch {
	case a.Status >= 500:
		return &push.RetryError{After: orBackoff(after), Reason: says("it failed")}
	case a.Status >= 400:
		return &push.PermanentError{Reason: says("the message is refused")}
	}
	return &push.PermanentError{Reason: says("redirects are not followed")}
}

// party is whose credentials the project lacks, as the part of its scope that has to stop.
func (f *failure) party() string {
	if f.OfAPNs || strings.Contains(f.Message, "APN") && !strings.Contains(f.Message, "Web Push") {
		return "/apns"
	}
	return "/webpush"
}

// orBackoff is what FCM asked for, or else the least that it wants to be left alone; whoever tries again makes it more
// each time.
func orBackoff(after time.Duration) time.Duration {
	if after > 0 {
		return after
	}
	return leastWait + rand.N(jitter) //nolint:gosec // no secret
}

// said is what FCM wrote, for reasons, without the device's token and ours should it repeat them.
func (s *Sender) said(f *failure, device string) string {
	text := f.Message + f.described
	if text == "" {
		return ""
	}
	for _, secret := range []string{device, s.tokens.newest()} {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "…")
		}
	}
	if text = provider.Clip(text); f.Code != "" {
		text = provider.Clip(f.Code) + ", " + text
	}
	return ": " + text
}
