package webpush

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"godwit.dev/godwit/internal/push"
	"godwit.dev/godwit/internal/sender/provider"
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
	for _, status := range []int{199, 300, 399, 402, 413, 499} {
		if err := judge(status); !isA[*push.PermanentError](err) {
			t.Errorf("%d: %v, want it refused for good", status, err)
		}
	}
	for _, status := range []int{404, 410} {
		if err := judge(status); !isA[*push.GoneError](err) {
			t.Errorf("%d: %v, want the subscription gone", status, err)
		}
	}
	for _, status := range []int{400, 401, 403} {
		if err := judge(status); !isA[*push.ConfigError](err) {
			t.Errorf("%d: %v, want the credentials refused", status, err)
		}
	}
	for _, status := range []int{429, 500, 503, 599} {
		if err := judge(status); !isA[*push.RetryError](err) {
			t.Errorf("%d: %v, want it tried again", status, err)
		}
	}
}

func isA[E error](err error) bool { _, ok := errors.AsType[E](err); return ok }
