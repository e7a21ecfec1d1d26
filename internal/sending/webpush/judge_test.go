package webpush

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"godwit.dev/godwit/internal/sending/provider"
	"godwit.dev/godwit/internal/sending/push"
)

func TestStatusesAreJudgedToTheirBounds(t *testing.T) {
	s := &Sender{cfg: Config{Now: time.Now}}
	judge := func(status int) error {
		return s.judge(&provider.Answer{Status: status, Header: http.Header{}}, "push.example", "https://push.example")
	}
	for _, status := range []int{200, 201, 299} {
		if err := judge(status); err != nil {
			t.Errorf("%d: %v", status, err)
		}
	}
	for _, status := range []int{411, 413, 415, 422} {
		if err := judge(status); !isA[*push.PermanentError](err) {
			t.Errorf("%d: %v, want it refused for good", status, err)
		}
	}
	if err := judge(410); !isA[*push.GoneError](err) {
		t.Errorf("410: %v, want the subscription gone", err)
	}
	for _, status := range []int{400, 401, 403, 404} {
		err := judge(status)
		o, ok := errors.AsType[*push.ObjectionError](err)
		if !ok || o.Ended != (status == 404) || (o.Shared == push.Host) != (status == 404) {
			t.Errorf("%d: %#v, want other subscriptions asked", status, err)
		}
	}
	for _, status := range []int{199, 300, 399, 402, 408, 418, 425, 429, 499, 500, 503, 599} {
		if err := judge(status); !isA[*push.RetryError](err) {
			t.Errorf("%d: %v, want it tried again", status, err)
		}
	}
}

func TestWebPagesAreNoAnswersOfAPushService(t *testing.T) {
	s := &Sender{cfg: Config{Now: time.Now}}
	for _, status := range []int{200, 201, 302, 400, 401, 403, 404, 415, 422} {
		for _, body := range []string{"<html>", " \r\n<!DOCTYPE html>", "\ufeff<HTML lang=en>", "<!-- x --><html>", "<?xml version='1.0'?><Error/>", "<body>", "<center>"} {
			err := s.judge(&provider.Answer{Status: status, Header: http.Header{}, Body: []byte(body)}, "push.example", "https://push.example")
			if !isA[*push.RetryError](err) {
				t.Errorf("%d with a web page: %v, want it tried again", status, err)
			}
		}
	}
	err := s.judge(&provider.Answer{Status: 410, Body: []byte("<html>")}, "push.example", "https://push.example")
	if o, ok := errors.AsType[*push.ObjectionError](err); !ok || !o.Ended || o.Shared != push.Host {
		t.Errorf("410 with a web page: %#v, want other subscriptions asked", err)
	}
}

func TestRetryAfterIsObeyed(t *testing.T) {
	s := &Sender{cfg: Config{Now: time.Now}}
	for _, status := range []int{406, 403, 429, 503} {
		err := s.judge(&provider.Answer{Status: status, Header: http.Header{"Retry-After": {"7"}}}, "push.example", "https://push.example")
		if r, ok := errors.AsType[*push.RetryError](err); !ok || r.After != 7*time.Second {
			t.Errorf("%d with Retry-After: %v, want it tried again in 7 s", status, err)
		}
	}
}

func TestTheLastSecondOfAMessageIsNoTTLOfZero(t *testing.T) {
	now := time.Now()
	for left, want := range map[time.Duration]string{time.Nanosecond: "1", 999 * time.Millisecond: "1", time.Second: "1", 2500 * time.Millisecond: "2"} {
		if got, ok := ttl(now.Add(left), now); !ok || got != want {
			t.Errorf("%s left: TTL %q, want %s", left, got, want)
		}
	}
}

func isA[E error](err error) bool { _, ok := errors.AsType[E](err); return ok }
