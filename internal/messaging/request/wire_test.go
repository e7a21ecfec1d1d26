package request

import (
	"errors"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/messaging/topic"
)

func TestAnswersThatAreNoneOfHTTPAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		header topic.Header
		status int // 0: refused
	}{
		"nothing said":         {nil, 200},
		"a status":             {topic.Header{headStatus: {"418"}}, 418},
		"a service's error":    {topic.Header{natsCode: {"409"}}, 409},
		"a service's own code": {topic.Header{natsCode: {"E17"}}, 500},
		"too low":              {topic.Header{headStatus: {"101"}}, 0},
		"too high":             {topic.Header{headStatus: {"600"}}, 0},
		"no number":            {topic.Header{headStatus: {"OK"}}, 0},
		"a broken name":        {topic.Header{"a b": {"x"}}, 0},
		"a broken value":       {topic.Header{"X-A": {"a\x00b"}}, 0},
		"a broken type":        {topic.Header{headType: {"text/html\x7f"}}, 0},
		"too long":             {topic.Header{"X-A": {strings.Repeat("a", 17<<10)}}, 0},
	} {
		a, err := answer(topic.Message{Header: c.header})
		var bad *BadAnswerError
		switch {
		case c.status == 0 && !errors.As(err, &bad):
			t.Errorf("%s: %+v, %v", name, a, err)
		case c.status != 0 && (err != nil || a.Status != c.status):
			t.Errorf("%s: %+v, %v; want %d", name, a, err, c.status)
		}
	}
}

// Many libraries write header names in lower case.
func TestWorkersHeadersCountInAnyCase(t *testing.T) {
	for name, c := range map[string]struct {
		h    topic.Header
		want int
	}{
		"status":          {topic.Header{"godwit-status": {"404"}}, 404},
		"status, capital": {topic.Header{"GODWIT-STATUS": {"201"}}, 201},
		"of NATS":         {topic.Header{"nats-service-error-code": {"418"}, "nats-service-error": {"I am a teapot"}}, 418},
		"as it is":        {topic.Header{"Godwit-Status": {"202"}, "godwit-status": {"404"}}, 202},
	} {
		a, err := answer(topic.Message{Header: c.h})
		if err != nil || a.Status != c.want || len(a.Header) > 0 {
			t.Errorf("%s: %+v, %v", name, a, err)
		} else if name == "of NATS" && string(a.Data) != "I am a teapot" {
			t.Errorf("%s: it says %q", name, a.Data)
		}
	}
	if _, err := answer(topic.Message{Header: topic.Header{"godwit-status": {"101"}}}); err == nil {
		t.Error("101 is an answer")
	}
}
