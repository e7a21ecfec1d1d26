package apns

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/sending/provider"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/sending/sendertest"
)

// FuzzAnswer checks that every answer leads to one of the known errors, and that its text contains only our words and Apple's.
func FuzzAnswer(f *testing.F) {
	f.Add(410, []byte(`{"reason":"Unregistered","timestamp":1700000000123}`), "")
	f.Add(400, []byte(`{"reason":"BadDeviceToken"}`), "7")
	f.Add(429, []byte(`{"reason":"TooManyRequests"}`), "Sun, 06 Nov 2044 08:49:37 GMT")
	f.Add(410, []byte(`{"reason":"ExpiredToken","timestamp":-1e400}`), "-1")
	f.Add(403, []byte(`{"reason":7,"timestamp":"x"}`), "99999999999999")
	f.Add(502, []byte("<html>"), "")
	f.Add(200, []byte(nil), "")
	f.Add(200, []byte("<html>"), "")
	f.Add(201, []byte(nil), "")
	s := &Sender{cfg: Config{Topic: "org.example", Environment: Production, Now: time.Now}, scope: "apns:org.example", signer: &signer{}}
	f.Fuzz(func(t *testing.T, status int, body []byte, retryAfter string) {
		got := provider.Answer{Status: status, Body: body, Header: http.Header{"Retry-After": {retryAfter}}}
		a := readAnswer(&got, time.Now())
		err := s.judge(a, &message{scope: s.scope})
		if outcome := sendertest.OutcomeOf(err); strings.HasPrefix(string(outcome), "an error") {
			t.Fatal(outcome)
		}
		if (err == nil) != (status >= 200 && status < 300 && len(bytes.TrimSpace(body)) == 0) {
			t.Fatalf("%d: %v", status, err)
		}
		if len(a.reason) > maxReason || strings.Trim(a.reason, letters) != "" || a.after < 0 {
			t.Fatalf("%+v", a)
		}
		if !a.since.IsZero() && a.since.UnixMilli() <= 0 {
			t.Fatalf("since %s", a.since)
		}
		if f := readFarewell(string(body)); f.status != 0 || strings.Trim(f.reason, letters) != "" {
			t.Fatalf("%+v", f)
		}
	})
}

// FuzzAddress checks that no accepted device token changes the path of a request.
func FuzzAddress(f *testing.F) {
	f.Add([]byte(`{"token":"00ff"}`))
	f.Add([]byte(`{"token":"../x?y"}`))
	f.Fuzz(func(t *testing.T, address []byte) {
		device, err := parseAddress(address)
		if err == nil && (device == "" || len(device) > maxToken || strings.Trim(device, "0123456789abcdefABCDEF") != "") {
			t.Fatalf("%q", device)
		}
	})
}

// FuzzPayload checks that every payload is one that APNs accepts.
func FuzzPayload(f *testing.F) {
	f.Add("t", "b", []byte(`{"a":1}`), "d")
	f.Fuzz(func(t *testing.T, title, body string, data []byte, id string) {
		if !json.Valid(data) {
			data = nil
		}
		p, err := encodePayload(&push.Request{ID: id, Content: push.Content{Title: title, Body: body, Data: data}})
		if err == nil && (len(p) > maxPayload || !json.Valid(p)) {
			t.Fatalf("%d bytes: %s", len(p), p)
		}
	})
}
