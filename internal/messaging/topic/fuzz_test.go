package topic_test

import (
	"net/url"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/messaging/topic"
)

// The model implements the rules independently, one token after the other; it is short rather than fast.
func modelValid(s string, wild bool) bool {
	toks := strings.Split(s, ".")
	for i, tok := range toks {
		text, err := url.PathUnescape(tok)
		plain := strings.Trim(tok, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_:@+-") == ""
		escaped := err == nil && topic.EncodeToken(text) == tok
		wildcard := wild && (tok == "*" || tok == ">" && i == len(toks)-1)
		if !wildcard && (tok == "" || !plain && !escaped) {
			return false
		}
	}
	return len(s) <= 255 && len(toks) <= 16
}

func modelMatch(pattern, name []string) bool {
	switch {
	case len(pattern) == 0 || len(name) == 0:
		return len(pattern) == len(name)
	case pattern[0] == ">":
		return true
	}
	return (pattern[0] == "*" || pattern[0] == name[0]) && modelMatch(pattern[1:], name[1:])
}

func modelMatches(pattern, name string) bool {
	return modelMatch(strings.Split(pattern, "."), strings.Split(name, "."))
}

// modelNames returns names that represent all others that a pattern matches: each wildcard replaced by a word that is
// used nowhere else, > by one to three of them.
func modelNames(pattern string) []string {
	one := strings.ReplaceAll(pattern, "*", "zz")
	if !strings.HasSuffix(one, ">") {
		return []string{one}
	}
	head := strings.TrimSuffix(one, ">")
	return []string{head + "zz", head + "zz.zz", head + strings.Repeat("zz.", 15) + "zz"}
}

func FuzzTopic(f *testing.F) {
	for _, pair := range [][2]string{
		{"rides.>", "rides.*"},
		{"rides.*", "rides.>"},
		{"a.b", "a.*"},
		{"a..b", ">"},
		{"*x", "*"},
		{"a.>.b", ">"},
		{"a%2Eb", "*"},
		{"a\x00", "a\r\n"},
		{strings.Repeat("a.", 16) + "a", ">"},
		{"", "."},
		{"*.*", "*.>"},
		{"a+b", "a+b"},
	} {
		f.Add(pair[0], pair[1])
	}
	f.Fuzz(func(t *testing.T, pattern, allowed string) {
		for _, s := range []string{pattern, allowed} {
			if got, want := topic.CheckName("", s) == nil, modelValid(s, false); got != want {
				t.Fatalf("name %q: %v, the model says %v", s, got, want)
			}
			if got, want := topic.CheckPattern("", s) == nil, modelValid(s, true); got != want {
				t.Fatalf("pattern %q: %v, the model says %v", s, got, want)
			}
			tok := topic.EncodeToken(s)
			if s != "" && (topic.DecodeToken(tok) != s || len(s) <= 85 && topic.CheckName("", tok) != nil) {
				t.Fatalf("%q became token %q, which is %q", s, tok, topic.DecodeToken(tok))
			}
		}
		if topic.CheckPattern("", pattern) != nil || topic.CheckPattern("", allowed) != nil {
			return
		}
		if topic.CheckName("", pattern) == nil {
			if got, want := topic.Match(allowed, pattern), modelMatches(allowed, pattern); got != want {
				t.Fatalf("%q matches %q: %v, the model says %v", allowed, pattern, got, want)
			}
		}
		want := true
		for _, name := range modelNames(pattern) {
			want = want && modelMatches(allowed, name)
		}
		if got := topic.Within(pattern, allowed); got != want {
			t.Fatalf("%q within %q: %v, the model says %v", pattern, allowed, got, want)
		}
	})
}
