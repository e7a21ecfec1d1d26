package topic_test

import (
	"regexp"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/topic"
)

// The model says the rules in other words: a name is text that an expression describes, and a pattern is an
// expression. It is slow and short.
var modelName = regexp.MustCompile(`\A(?:[A-Za-z0-9_:@+-]|%[0-9A-F]{2})+(?:\.(?:[A-Za-z0-9_:@+-]|%[0-9A-F]{2})+){0,15}\z`)

func modelValid(s string, wild bool) bool {
	toks := strings.Split(s, ".")
	for i, tok := range toks {
		if wild && (tok == "*" || tok == ">" && i == len(toks)-1) {
			toks[i] = "x"
		}
	}
	return len(s) <= 255 && modelName.MatchString(strings.Join(toks, ".")) && !regexp.MustCompile(`%(3[0-9A]|4[0-9A-F]|5[0-9AF]|6[1-9A-F]|7[0-9A]|2[BD])`).MatchString(s)
}

func modelMatch(pattern, name string) bool {
	expr := strings.NewReplacer(".", `\.`, "*", `[^.]+`, ">", `.+`, "+", `\+`).Replace(pattern)
	return regexp.MustCompile(`\A` + expr + `\z`).MatchString(name)
}

// modelNames are names of a pattern that stand for all others: each wildcard as something nobody wrote, > of one to
// three tokens.
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
			if got, want := topic.Match(allowed, pattern), modelMatch(allowed, pattern); got != want {
				t.Fatalf("%q matches %q: %v, the model says %v", allowed, pattern, got, want)
			}
		}
		want := true
		for _, name := range modelNames(pattern) {
			want = want && modelMatch(allowed, name)
		}
		if got := topic.Within(pattern, allowed); got != want {
			t.Fatalf("%q within %q: %v, the model says %v", pattern, allowed, got, want)
		}
	})
}
