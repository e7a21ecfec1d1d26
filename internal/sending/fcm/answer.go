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
	// quotaWait is the pause after a 429 that states no time (firebase.google.com/docs/cloud-messaging/scale-fcm).
	quotaWait = time.Minute
	// leastWait is the least wait after a 500 or 503 that states no time, and jitter the most that is added to it, so that requests that
	// failed together are not repeated together.
	leastWait = 10 * time.Second
	jitter    = 5 * time.Second
)

// failure is FCM's answer to a failed message: google.rpc.Status as JSON, with the details that Send uses.
type failure struct {
	Status    string // such as NOT_FOUND; empty: the answer does not come from FCM
	Message   string
	Code      string // FcmError.errorCode, like UNREGISTERED
	Fields    []string
	OfAPNs    bool   // the objection is Apple's
	OfOne     bool   // a limit of one device or topic
	bad       bool   // 400
	described string // descriptions of the violated fields and quotas
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

// parseFailure parses an answer. It ignores an unreadable body, such as a proxy's page.
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

// ofToken reports whether the fault is in the message's token.
func (f *failure) ofToken() bool {
	for _, field := range f.Fields {
		if field == "message.token" {
			return true
		}
	}
	return false
}

// ambiguous reports whether the answer may mean either a malformed token or a message that FCM does not accept.
func (f *failure) ambiguous() bool {
	return f.bad && len(f.Fields) == 0 && (f.Code == "INVALID_ARGUMENT" || f.Code == "" && f.Status == "INVALID_ARGUMENT")
}

// judge converts an answer other than 2xx to an error. It uses only the answer: Send makes the further check of a token.
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

// inWords interprets the text of FCM's error; nil: the text is unknown.
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

// denied interprets a refusal that may concern one device or the whole project.
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

// later adds the least wait to a retry error without one.
func later(err error) error {
	var retry *push.RetryError
	if errors.As(err, &retry) {
		retry.After = orBackoff(retry.After)
	}
	return err
}

// orQuota returns the wait that FCM requested after a 429, or else quotaWait.
func orQuota(after time.Duration) time.Duration {
	if after > 0 {
		return after
	}
	return quotaWait
}

// party names the service whose credentials the project lacks, as the part of the project's scope that has to stop.
func (f *failure) party() string {
	if f.OfAPNs || strings.Contains(f.Message, "APN") && !strings.Contains(f.Message, "Web Push") {
		return "/apns"
	}
	return "/webpush"
}

// orBackoff returns the wait that FCM requested, or else its least wait, which the caller increases with each try.
func orBackoff(after time.Duration) time.Duration {
	if after > 0 {
		return after
	}
	return leastWait + rand.N(jitter) // no secret
}

// said is FCM's text for reasons, without the device's token and ours, which FCM might repeat.
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
