package frame

import (
	"fmt"
	"strings"
	"testing"

	"godwit.dev/godwit/api/godwitpb"
)

func TestPatternsAreRead(t *testing.T) {
	var c Client
	for _, in := range []struct {
		kind string
		read func() error
	}{
		{"subscribe", func() error {
			return DecodeJSON([]byte(`{"subscribe":{"topics":["rides.*","a.b.>"],"queue":"q"}}`), &c)
		}},
		{"unsubscribe", func() error {
			return DecodeJSON([]byte(`{"unsubscribe":{"queue":"q","topics":["rides.*","a.b.>"]}}`), &c)
		}},
		{"serve", func() error { return DecodeJSON([]byte(`{"serve":{"subjects":["rides.*","a.b.>"],"queue":"q"}}`), &c) }},
		{"unserve", func() error {
			return DecodeJSON([]byte(`{"unserve":{"subjects":["rides.*","a.b.>"],"queue":"q"}}`), &c)
		}},
		{"subscribe", func() error {
			return DecodeProto(client(&godwitpb.Subscribe{Topics: []string{"rides.*", "a.b.>"}, Queue: "q"}), &c)
		}},
		{"serve", func() error {
			return DecodeProto(client(&godwitpb.Serve{Subjects: []string{"rides.*", "a.b.>"}, Queue: "q"}), &c)
		}},
	} {
		if err := in.read(); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%s %s %s", c.Kind, c.Patterns, c.Queue); got != in.kind+" [rides.* a.b.>] q" {
			t.Errorf("read as %s, want %s", got, in.kind)
		}
	}
	if err := DecodeJSON([]byte(`{"subscribe":{"topics":["a"]}}`), &c); err != nil || len(c.Queue) > 0 || len(c.Patterns) != 1 {
		t.Errorf("what was read before is left over: %+v, %v", c, err)
	}
}

func TestBadPatternsAreRefusedByName(t *testing.T) {
	long := strings.Repeat("a", 256)
	for pattern, says := range map[string]string{
		"": "required", "a..b": "empty token", ".a": "empty token", "a.": "empty token", "a.>.b": "last token", "*x": "wildcard",
		"a>": "wildcard", strings.Repeat("a.", 16) + "a": "more than 16 tokens", long: "at most 255", `a\u0000`: "allowed in a token",
		`a\r\nb`: "allowed in a token", "a b": "allowed in a token", "é": "allowed in a token",
	} {
		var c Client
		err := DecodeJSON([]byte(`{"subscribe":{"topics":["rides.*","`+pattern+`"]}}`), &c)
		checkError(t, pattern, err, CodeBadField, "topics", says)
	}
	for _, c := range []struct{ in, code, field, says string }{
		{`{"subscribe":{}}`, CodeBadField, "topics", "required"},
		{`{"subscribe":{"topics":[]}}`, CodeBadField, "topics", "required"},
		{`{"subscribe":{"topics":"rides.*"}}`, CodeBadField, "topics", "list of strings"},
		{`{"subscribe":{"topics":["a"],"queue":"a b"}}`, CodeBadField, "queue", `' '`},
		{`{"subscribe":{"topics":["a"],"queue":7}}`, CodeBadField, "queue", "string"},
		{`{"subscribe":{"subjects":["a"]}}`, CodeBadFrame, "subjects", `"subjects"`},
		{`{"unsubscribe":{"topics":[` + list(257) + `]}}`, CodeBadField, "topics", "256"},
		{`{"serve":{"subjects":["a..b"]}}`, CodeBadField, "subjects", "empty token"},
		{`{"unserve":{"subjects":[]}}`, CodeBadField, "subjects", "required"},
	} {
		var into Client
		checkError(t, c.in, DecodeJSON([]byte(c.in), &into), c.code, c.field, c.says)
	}
	many := make([]string, 257)
	for i := range many {
		many[i] = "a"
	}
	var into Client
	checkError(t, "257 topics", DecodeProto(client(&godwitpb.Subscribe{Topics: many}), &into), CodeBadField, "topics", "256")
	checkError(t, "not UTF-8", DecodeProto([]byte{0x3a, 0x03, 0x0a, 0x01, 0xff}, &into), CodeBadField, "topics", "UTF-8")
}
