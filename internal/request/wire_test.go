package request

import (
	"errors"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/topic"
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
