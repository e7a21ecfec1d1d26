package topic_test

import (
	"errors"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/messaging/topic"
	"godwit.dev/godwit/internal/notify/notification"
)

func TestNamesAndPatterns(t *testing.T) {
	long := strings.Repeat("a", topic.MaxBytes)
	for _, c := range []struct {
		s             string
		name, pattern bool
	}{
		{"rides", true, true},
		{"rides.oslo.new", true, true},
		{"a_b:c@d+e-f.0", true, true},
		{"driver%2E42.x", true, true},
		{long, true, true},
		{strings.Repeat("a.", 15) + "a", true, true},
		{"*", false, true},
		{">", false, true},
		{"rides.*", false, true},
		{"rides.*.new.>", false, true},
		{strings.Repeat("*.", 15) + ">", false, true},
		{"", false, false},
		{".", false, false},
		{"a..b", false, false},
		{".a", false, false},
		{"a.", false, false},
		{">.a", false, false},
		{"a.>.b", false, false},
		{"*x", false, false},
		{"x*", false, false},
		{"a.x>", false, false},
		{"**", false, false},
		{long + "a", false, false},
		{strings.Repeat("a.", 16) + "a", false, false},
		{strings.Repeat("a.", 16) + ">", false, false},
		{"a b", false, false},
		{"a\x00b", false, false},
		{"a\r\nb", false, false},
		{"a\tb", false, false},
		{"å", false, false},
		{"$SYS.a", false, false},
		{"a/b", false, false},
		{"{sub}", false, false},
		{"a%", false, false},
		{"a%2", false, false},
		{"a%2e", false, false},  // one spelling for each byte
		{"a%41b", false, false}, // an A needs none
		{"a%%2E", false, false},
	} {
		if err := topic.CheckName("topic", c.s); (err == nil) != c.name {
			t.Errorf("name %.40q: %v", c.s, err)
		}
		err := topic.CheckPattern("topics", c.s)
		if (err == nil) != c.pattern {
			t.Errorf("pattern %.40q: %v", c.s, err)
		}
		if _, ok := errors.AsType[*notification.FieldError](err); err != nil && !ok {
			t.Errorf("pattern %.40q: %T does not name its field", c.s, err)
		}
	}
}

func TestWithin(t *testing.T) {
	for _, c := range []struct {
		pattern, allowed string
		want             bool
	}{
		{"rides", "rides", true},
		{"rides", "*", true},
		{"rides", ">", true},
		{"rides.oslo", "rides.*", true},
		{"rides.oslo", "rides.>", true},
		{"rides.oslo", "*.oslo", true},
		{"rides.*", "rides.*", true},
		{"rides.*", "rides.>", true},
		{"rides.*", "*.*", true},
		{"rides.>", "rides.>", true},
		{"rides.>", ">", true},
		{"rides.*.new.>", "rides.>", true},
		{"rides.oslo.*", "rides.*.*", true},
		{"rides.>", "rides.*", false},
		{"rides.>", "rides.*.>", false},
		{">", "*", false},
		{"*", "rides", false},
		{"rides.*", "rides.oslo", false},
		{"rides", "rides.*", false},
		{"rides", "rides.>", false},
		{"rides.oslo", "rides", false},
		{"rides.oslo.new", "rides.*", false},
		{"ride", "rides", false},
		{"rides", "ride", false},
	} {
		if got := topic.Within(c.pattern, c.allowed); got != c.want {
			t.Errorf("%s within %s: %v", c.pattern, c.allowed, got)
		}
	}
	if topic.WithinAny("rides.*", []string{"rides.a", "rides.b"}) || topic.WithinAny("a", nil) || !topic.WithinAny("a.b", []string{"b", "a.*"}) {
		t.Error("a list allows what one of its patterns allows")
	}
}

func TestRecipientFillsOneToken(t *testing.T) {
	for recipient, want := range map[string]string{
		"driver-42": "rides.driver-42.>",
		"a.b":       "rides.a%2Eb.>",
		"*":         "rides.%2A.>", // not a valid recipient, and harmless if it were one
	} {
		if got := topic.Fill("rides.{sub}.>", recipient); got != want {
			t.Errorf("%s fills in as %s, not %s", recipient, got, want)
		}
	}
	if topic.Match(topic.Fill("rides.{sub}", "a.b"), "rides.a.b") {
		t.Error("a dot in a recipient's name reached into another token")
	}
}

func TestSubjects(t *testing.T) {
	if s := topic.Topic("rides.oslo"); s != "t.rides.oslo" {
		t.Error(s)
	}
	if s := topic.Request("orders.get"); s != "r.orders.get" {
		t.Error(s)
	}
	if name, ok := topic.CutTopic("t.rides.oslo"); !ok || name != "rides.oslo" {
		t.Error(name, ok)
	}
	if _, ok := topic.CutTopic("r.rides.oslo"); ok {
		t.Error("a request is no topic")
	}
	if name, ok := topic.CutRequest("r.orders.get"); !ok || name != "orders.get" {
		t.Error(name, ok)
	}
	if topic.EncodeToken("a.t") != "a%2Et" || topic.EncodeToken("") != "_" {
		t.Error("a dot is part of a token's text")
	}
}

func TestHeadersStayHeaders(t *testing.T) {
	for name, h := range map[string]topic.Header{
		"CR":            {"A": {"x\rB: y"}},
		"LF in another": {"A": {"fine", "x\nB: y"}},
		"NUL":           {"A": {"\x00"}},
		"name with LF":  {"A\nB": {"x"}},
		"no name":       {"": {"x"}},
		"colon":         {"A:B": {"x"}},
		"space":         {"A B": {"x"}},
		"not ASCII":     {"Å": {"x"}},
	} {
		if h.Check() == nil {
			t.Errorf("%s: allowed", name)
		}
	}
	if err := (topic.Header{"Set-Cookie": {"a=1; Path=/", "b=ø"}, "traceparent": {""}}).Check(); err != nil {
		t.Error(err)
	}
}
