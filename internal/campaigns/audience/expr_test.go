package audience

import (
	"errors"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/sending/push"
)

func subscriber() *Endpoint {
	return &Endpoint{
		Channel: push.WebPush, Recipient: "ada", Tags: []string{"news", "vip"}, Locale: "nb-NO", Timezone: "Europe/Oslo",
		Attributes: Attributes{
			"city": Text("Oslo"), "age": Number(42), "member": Bool(true), "zip": Text("0150"), "tags": Text("own"), "plan.level": Number(-1.5),
			"note": Text("say \"hi\"\nÅ"), "empty": Text(""),
		},
		CreatedAt: time.Date(2030, 3, 1, 12, 0, 0, 0, time.UTC),
	}
}

func TestConditionsMeanWhatTheySay(t *testing.T) {
	for where, want := range map[string]bool{
		`city = "Oslo"`:                                true,
		`city == 'Oslo'`:                               true,
		`city = "oslo"`:                                false,
		`city != "Oslo"`:                               false,
		`city <> "Bergen"`:                             true,
		`town != "Oslo"`:                               true, // an endpoint without the attribute is also not in Oslo
		`exists town and town != "Oslo"`:               false,
		`age >= 18`:                                    true,
		`age > 42`:                                     false,
		`age <= 42 and age < 42.5`:                     true,
		`age = "42"`:                                   false, // a number is no text
		`age < "5"`:                                    false,
		`not age < "5"`:                                true,
		`zip = 150`:                                    false,
		`zip > "01"`:                                   true,
		`plan.level = -1.5e0`:                          true,
		`member = true`:                                true,
		`member = 1`:                                   true,
		`member = false`:                               false,
		`city in ("Bergen", "Oslo")`:                   true,
		`city not in ("Bergen", "Oslo")`:               false,
		`age in (1, 42, "x")`:                          true,
		`city contains "sl"`:                           true,
		`city not contains "sl"`:                       false,
		`city prefix "Os"`:                             true,
		`city starts with "sl"`:                        false,
		`city not starts with "sl"`:                    true,
		`empty prefix "x" or empty contains "x"`:       false,
		`exists empty`:                                 true,
		`empty = ""`:                                   true,
		`note = "say \"hi\"\nÅ"`:                       true,
		`tags contains "vip"`:                          true,
		`tags = "vip"`:                                 true,
		`tags in ("a", "news")`:                        true,
		`tags not in ("a", "b")`:                       true,
		`not tags contains "staff"`:                    true,
		`exists tags`:                                  true,
		`attributes.tags = "own"`:                      true,
		`channel = "webpush"`:                          true,
		`recipient prefix "a"`:                         true,
		`exists(recipient)`:                            true,
		`locale starts with "nb"`:                      true,
		`timezone in ("Europe/Oslo")`:                  true,
		`created_at >= "2030-03-01"`:                   true,
		`created_at > "2030-03-01T13:00:00+01:00"`:     false,
		`created_at = "2030-03-01T12:00:00Z"`:          true,
		`last_seen_at < "2099-01-01"`:                  false, // never seen is no time
		`exists last_seen_at`:                          false,
		`city = "Bergen" or age = 42 and member=true`:  true, // and binds closer than or
		`(city = "Bergen" or age = 42) and age = 1`:    false,
		`NOT (city = "Bergen" OR age = 1) AND age=42`:  true,
		"\tcity\n=\r\"Oslo\"":                          true,
		`not not exists city`:                          true,
		`attributes.not = "x" or attributes.city>"Os"`: true,
	} {
		x, err := Parse(where)
		if err != nil {
			t.Errorf("%s: %v", where, err)
			continue
		}
		if got := x.Match(subscriber()); got != want {
			t.Errorf("%s: %t", where, got)
		}
		again, err := Parse(x.String())
		if err != nil || again.String() != x.String() || again.Match(subscriber()) != want {
			t.Errorf("%s is written as %s: %v", where, x, err)
		}
	}
}

func TestErrorsSayWhatIsWrongAndWhere(t *testing.T) {
	for where, want := range map[string]string{
		``:                                     "found the end where the name of an attribute is needed at character 1",
		`city`:                                 "found the end where a comparison (= != < <= > >= in contains prefix) is needed at character 5",
		`city = Oslo`:                          `found Oslo where a value is needed: texts stand in quotes, like "Oslo" at character 8`,
		`city = "Oslo`:                         "the text has no closing quote at character 8",
		`city = "\x"`:                          `\x is no escape: write \\, \", \', \n, \t or \r at character 9`,
		`ålder = 3`:                            `found 'å', which means nothing here at character 1`,
		`city = "Å" & age`:                     `found '&', which means nothing here at character 12`,
		`age >= 1.2.3`:                         "1.2.3 is not a number at character 8",
		`age 18`:                               "found 18 where a comparison (= != < <= > >= in contains prefix) is needed at character 5",
		`age > 18 city = "x"`:                  "found city where and, or, or the end is needed at character 10",
		`(age > 18`:                            "found the end where a closing bracket is needed at character 10",
		`age in 1, 2`:                          "found 1 where a list in brackets is needed at character 8",
		`age in ()`:                            "found ) where a value (a text in quotes, a number, true or false) is needed at character 9",
		`age not = 1`:                          "found = where in, contains or prefix after not is needed at character 9",
		`age contains 1`:                       "contains needs a text in quotes, not 1 at character 14",
		`city contains ""`:                     "contains needs a text that is not empty at character 15",
		`city starts "O"`:                      `found "O" where with after starts is needed at character 13`,
		`tags < "a"`:                           "tags can be asked with contains, in or exists, not with < at character 8",
		`channel = "pigeon"`:                   `there is no channel "pigeon" at character 11`,
		`created_at > "yesterday"`:             `"yesterday" is no time; write it like "2026-01-31" or "2026-01-31T12:00:00Z" at character 14`,
		`created_at > 5`:                       `created_at is compared with a time in quotes, like "2026-01-31" or "2026-01-31T12:00:00Z" at character 14`,
		`locale = 5`:                           "locale is compared with a text in quotes, not 5 at character 10",
		`and = 1`:                              "found and where the name of an attribute is needed at character 1",
		`attributes. = 1`:                      " is no name of an attribute at character 1",
		"city = \"a\x00b\"":                    "found a NUL character at character 10",
		"city = \"\xff\"":                      "the expression is not valid UTF-8; it begins at character 1",
		strings.Repeat("(", 100):               "the expression is nested deeper than 32 at character 34",
		strings.Repeat("not ", 100):            "the expression is nested deeper than 32 at character 133",
		strings.Repeat("a=1 or ", 200) + "a=1": "the expression has more than 200 comparisons at character 1401",
		"a in (1" + strings.Repeat(",1", 1000) + ")": "the list has more than 1000 values at character 2007",
		"a=" + strings.Repeat(" ", MaxExprBytes):     "the expression has 8194 bytes, at most 8192 are allowed; it begins at character 1",
	} {
		_, err := Parse(where)
		var syntax *SyntaxError
		if !errors.As(err, &syntax) || err.Error() != want {
			t.Errorf("%.60q: %v\nwant %s", where, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		`city = "Oslo" and (age >= 18 or not member = true)`, `tags in ('a', "b")`, `exists(locale)`, `a.b-c not starts with "x\n"`,
		`created_at < "2030-01-01"`, `x in (1, -2.5e3, "y", false)`, `((((`, `attributes.in != 'é'`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		x, err := Parse(s)
		if err != nil {
			var syntax *SyntaxError
			if !errors.As(err, &syntax) || syntax.Pos < 1 || syntax.Pos > len(s)+1 {
				t.Fatalf("%q: %v", s, err)
			}
			return
		}
		again, err := Parse(x.String())
		if len(x.String()) > MaxExprBytes {
			return // String's form is longer than Parse allows
		}
		if err != nil || again.String() != x.String() {
			t.Fatalf("%q is written as %q, which is read as %v, %v", s, x, again, err)
		}
		if e := subscriber(); x.Match(e) != again.Match(e) {
			t.Fatalf("%q and %q differ", s, x)
		}
	})
}
