package fcm

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"godwit.dev/godwit/internal/sending/provider"
	"godwit.dev/godwit/internal/sending/push"
)

const (
	// quotaWait is how long FCM wants no requests after a 429 that names no time
	// (firebase.google.com/docs/cloud-messaging/scale-fcm).
	quotaWait = time.Minute
	// leastWait is the least wait after a 500 or 503 that names no time, and jitter the most that is added to it, so that
	// requests that failed together do not come back together.
	leastWait = 10 * time.Second
	jitter    = 5 * time.Second
)

// failure is FCM's answer to a failed message: google.rpc.Status as JSON, with the details that matter.
type failure struct {
	Status    string // like NOT_FOUND; empty: the answer is none of FCM's
	Message   string
	Code      string // FcmError.errorCode, like UNREGISTERED
	Fields    []string
	OfAPNs    bool   // the objection is Apple's
	OfOne     bool   // a limit of one device or topic
	bad       bool   // 400
	described string // the descriptions of its violated fields and quotas
}

// status is the wire form of the answer.
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

// parseFailure reads an answer. An unreadable body is ignored: a proxy's page, say.
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

// ofToken reports whether the token is the message's fault.
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

// judge returns the error that an answer other than 2xx means. It uses only the answer: the further check of a token is
// in Send.
func (s *Sender) judge(a *provider.Answer, f *failure, device string) error {
	says := func(what string) string {
		return fmt.Sprintf("FCM answered %d: %s%s", a.Status, what, s.said(f, device))
	}
	if err := s.inWords(a, f, says); err != nil {
		return err
	}
	table := provider.Table{Name: name, Scope: s.cfg.Account.Project, Quiet: true, Least: orBackoff, Denied: func(_ int, reason string) error {
		if f.Status == "" { // none of FCM's own answers
			return &push.ObjectionError{Scope: s.cfg.Account.Project, Reason: reason, Shared: push.Host}
		}
		return s.denied(a, f, says)
	}}
	return later(table.Judge(a, s.cfg.Now()))
}

// inWords interprets the text of FCM's error; nil: an unknown text.
func (s *Sender) inWords(a *provider.Answer, f *failure, says func(string) string) error {
	after := provider.RetryAfter(a.Header, s.cfg.Now())
	project := s.cfg.Account.Project
	switch {
	case a.Status == http.StatusBadRequest && f.ofToken():
		return &push.GoneError{Reason: says("the token is not one")}
	case a.Status == http.StatusForbidden && f.Code == "SENDER_ID_MISMATCH":
		return &push.GoneError{Reason: says("the token is another project's")}
	case a.Status == http.StatusNotFound && f.Code == "UNREGISTERED":
		return &push.GoneError{Reason: says("the token has ended")}
	case a.Status == http.StatusTooManyRequests && f.OfOne:
		return &push.RetryError{After: orQuota(after), Reason: says("too many messages to this device")}
	case a.Status == http.StatusTooManyRequests:
		return &push.RetryError{After: orQuota(after), Credential: true, Scope: project, Reason: says("too many messages of the project")}
	case a.Status == http.StatusServiceUnavailable:
		return &push.RetryError{After: orBackoff(after), Scope: project, Reason: says("overloaded")}
	}
	return nil
}

// denied interprets a refusal that may be about one device or about the project.
func (s *Sender) denied(a *provider.Answer, f *failure, says func(string) string) error {
	project := s.cfg.Account.Project
	switch {
	case a.Status == http.StatusBadRequest:
		return &push.PermanentError{Reason: says("the message is refused")}
	case f.Code == "THIRD_PARTY_AUTH_ERROR":
		return &push.ObjectionError{Scope: project + f.party(), Reason: says("the project's own credentials for " + f.party()[1:] + " are missing or refused: see the Firebase console, Project settings, Cloud Messaging")}
	case a.Status == http.StatusUnauthorized:
		return &push.ObjectionError{Scope: project, Reason: says("the access token is refused")}
	case a.Status == http.StatusForbidden:
		return &push.ObjectionError{Scope: project, Reason: says("the service account may not send for project " + project)}
	}
	return &push.ObjectionError{Scope: project, Reason: says("there is no such device, no project " + project + ", or its Cloud Messaging API is switched off")}
}

// later adds the least wait to an answer that names none.
func later(err error) error {
	var retry *push.RetryError
	if errors.As(err, &retry) {
		retry.After = orBackoff(retry.After)
	}
	return err
}

// orQuota is the wait that FCM requested after a 429, or else quotaWait.
func orQuota(after time.Duration) time.Duration {
	if after > 0 {
		return after
	}
	return quotaWait
}

// party is whose credentials the project lacks, as the part of its scope that has to stop.
func (f *failure) party() string {
	if f.OfAPNs || strings.Contains(f.Message, "APN") && !strings.Contains(f.Message, "Web Push") {
		return "/apns"
	}
	return "/webpush"
}

// orBackoff is the wait that FCM requested, or else its least wait, which the caller increases with each try.
func orBackoff(after time.Duration) time.Duration {
	if after > 0 {
		return after
	}
	return leastWait + rand.N(jitter) //nolint:gosec // no secret
}

// said is FCM's text, for reasons, without the device's token or ours in case it repeats them.
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
