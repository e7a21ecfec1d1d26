package signin_test

import (
	"maps"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/access/signin"
)

func TestRulesSayWhoMayDoWhatInWhichApp(t *testing.T) {
	rules, err := signin.ParseRules("view shop groups=Domain Users; send shop groups=cn=marketing,dc=example ;admin a:b email=anna@example.org;;admin shop https://example.org/team=on call; operator groups=ops")
	must(t, err)
	for name, c := range map[string]struct {
		claims map[string]any
		want   map[string]signin.Role
	}{
		"nobody":                      {map[string]any{"groups": []any{"domain users", 7.0, nil}, "email": "anna@example.org"}, map[string]signin.Role{}},
		"a group":                     {map[string]any{"groups": []any{"x", "Domain Users"}}, map[string]signin.Role{"shop": signin.View}},
		"the highest counts":          {map[string]any{"groups": []any{"cn=marketing,dc=example", "Domain Users"}}, map[string]signin.Role{"shop": signin.Send}},
		"a text instead of a list":    {map[string]any{"groups": "Domain Users"}, map[string]signin.Role{"shop": signin.View}},
		"an address that was tried":   {map[string]any{"email": "anna@example.org", "email_verified": true}, map[string]signin.Role{"a:b": signin.Admin}},
		"one that was not":            {map[string]any{"email": "anna@example.org", "email_verified": "false"}, map[string]signin.Role{}},
		"a name that is like a URL":   {map[string]any{"https://example.org/team": "on call"}, map[string]signin.Role{"shop": signin.Admin}},
		"several apps":                {map[string]any{"groups": "Domain Users", "email": "anna@example.org", "email_verified": "true"}, map[string]signin.Role{"shop": signin.View, "a:b": signin.Admin}},
		"an operator":                 {map[string]any{"groups": []any{"ops"}}, map[string]signin.Role{"": signin.Operator}},
		"an operator and more":        {map[string]any{"groups": []any{"ops", "Domain Users"}}, map[string]signin.Role{"": signin.Operator, "shop": signin.View}},
		"an object instead of a text": {map[string]any{"groups": map[string]any{"Domain Users": true}}, map[string]signin.Role{}},
	} {
		if got := signin.Judge(rules, c.claims); !maps.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestRulesThatLetEverybodyInAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"view shop groups=*":                   "everybody",
		"view shop groups=":                    "everybody",
		"view shop groups":                     "no claim",
		"view shop":                            "no claim",
		"view":                                 "no app",
		"view shop iss=https://a.example":      "everybody",
		"admin shop aud=godwit":                "everybody",
		"admin shop email_verified=true":       "everybody",
		"admin shop email=*@example.org":       "no single address",
		"admin shop email=@example.org":        "no single address",
		"admin shop is_staff=true":             "yes or no",
		"operator":                             "no claim",
		"operator shop groups=a":               "names an app",
		"operator groups=*":                    "everybody",
		"operator email=@example.org":          "no single address",
		"owner shop groups=a":                  "no role",
		"view s/hop groups=a":                  "no app",
		"view shop groups=a; shop groups=b":    "no role",
		strings.Repeat("view a b=c;", 257):     "more than 256",
		"view a b=" + strings.Repeat("x", 257): "longer than",
		strings.Repeat("x", 70_000):            "bytes",
	} {
		if rules, err := signin.ParseRules(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v, %v; want an error that says %q", text, rules, err, want)
		}
	}
}

func TestOtherRulesHaveAnotherFingerprint(t *testing.T) {
	rules := func(text string) []signin.Rule {
		r, err := signin.ParseRules(text)
		must(t, err)
		return r
	}
	seen := make(map[string]bool)
	for _, print := range []string{
		signin.Fingerprint("https://a", "c", rules("view shop groups=a")), signin.Fingerprint("https://b", "c", rules("view shop groups=a")),
		signin.Fingerprint("https://a", "d", rules("view shop groups=a")), signin.Fingerprint("https://a", "c", rules("send shop groups=a")),
	} {
		if seen[print] {
			t.Error("two are the same")
		}
		seen[print] = true
	}
	if signin.Fingerprint("i", "c", rules("view shop  groups=a ;")) != signin.Fingerprint("i", "c", rules("view shop groups=a")) {
		t.Error("spaces make other rules")
	}
}

func FuzzParseRules(f *testing.F) {
	for _, seed := range []string{"view shop groups=a; admin b email=x@y.z", "view shop groups=*", ";;;", "send a b==c", "view  a\tb=c"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		rules, err := signin.ParseRules(text)
		if err != nil {
			return
		}
		var again []string
		for _, r := range rules {
			if r.Role == 0 || (r.App == "") != (r.Role == signin.Operator) || r.Claim == "" || r.Value == "" || r.Value == "*" {
				t.Fatalf("%q gives %+v", text, r)
			}
			again = append(again, r.String())
		}
		if twice, err := signin.ParseRules(strings.Join(again, "; ")); err != nil || len(twice) != len(rules) {
			t.Fatalf("%q is written as %q, which is %v, %v", text, again, twice, err)
		}
	})
}
