package fcm

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/sending/provider"
	"godwit.dev/godwit/internal/sending/push"
)

// FuzzAnswer checks that every answer leads to one of the known errors, with a short reason that contains neither the device's token nor
// ours.
func FuzzAnswer(f *testing.F) {
	for _, body := range []string{
		"", "<html>", `{"error":{}}`, `{"error":[]}`, `{"error":{"status":"NOT_FOUND","details":[{"@type":"x/FcmError","errorCode":"UNREGISTERED"}]}}`,
		`{"error":{"status":"INVALID_ARGUMENT","message":"device-token ya29.access","details":[{"@type":"t.BadRequest","fieldViolations":[{"field":"message.token","description":"device-token"}]}]}}`,
		`{"error":{"status":"RESOURCE_EXHAUSTED","details":[{"@type":"QuotaFailure","violations":[{"subject":"Device"}]},{"@type":""},null]}}`,
	} {
		for _, status := range []int{200, 307, 400, 401, 403, 404, 418, 429, 500, 503} {
			f.Add(status, body, "5")
		}
	}
	account := &Account{Project: "demo"}
	s := &Sender{cfg: Config{Account: account, Now: time.Now}, tokens: &tokens{account: account, now: time.Now}}
	s.tokens.current.text = "ya29.access"
	f.Fuzz(func(t *testing.T, status int, body, after string) {
		if status < 300 || status > 599 {
			return
		}
		a := &provider.Answer{Status: status, Body: []byte(body), Header: http.Header{"Retry-After": {after}}}
		why := parseFailure(a)
		err := s.judge(a, &why, "device-token")
		var retry *push.RetryError
		var gone *push.GoneError
		var permanent *push.PermanentError
		var objection *push.ObjectionError
		switch {
		case errors.As(err, &retry):
			if retry.After <= 0 || retry.After > 24*time.Hour {
				t.Errorf("again after %s", retry.After)
			}
		case errors.As(err, &gone), errors.As(err, &permanent), errors.As(err, &objection):
		default:
			t.Fatalf("%T", err)
		}
		text := err.Error()
		if strings.Contains(text, "device-token") || strings.Contains(text, "ya29.access") || len(text) > 700 || strings.ContainsAny(text, "\n\r") {
			t.Errorf("reason %q", text)
		}
	})
}

func TestTokensAskedAboutAreBounded(t *testing.T) {
	var a asked
	now := time.Now()
	token := func(i int) string { return string(rune(i)) + "t" }
	for i := range maxAsked {
		if !a.may(token(i), now) {
			t.Fatalf("%d was not asked about", i)
		}
	}
	if a.may("one more", now) || len(a.when) != maxAsked {
		t.Error("more are remembered")
	}
	a.forget(token(0))
	if !a.may(token(0), now) || !a.may("one more", now.Add(askAgain)) || len(a.when) != 1 {
		t.Error("old ones take the room of new ones")
	}
}
