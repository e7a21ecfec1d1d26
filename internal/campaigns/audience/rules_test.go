package audience_test

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/campaigns/audience"
)

func TestRowsAreWrittenAsAnExpressionAndReadBack(t *testing.T) {
	for _, c := range []struct {
		rows []audience.Rule
		one  bool
		want string
	}{
		{nil, false, ``},
		{[]audience.Rule{{"city", audience.RuleIs, "Oslo"}}, false, `city = "Oslo"`},
		{[]audience.Rule{{"city", audience.RuleIsNot, "Oslo"}, {"age", audience.RuleAtLeast, "18"}}, false, `city != "Oslo" and age >= 18`},
		{[]audience.Rule{{"vip", audience.RuleIs, "true"}, {"age", audience.RuleMore, "65"}, {"age", audience.RuleLess, "18.5"}}, true, `vip = true or age > 65 or age < 18.5`},
		{[]audience.Rule{{"zip", audience.RuleIs, "0150"}, {"zip", audience.RuleIs, `"4"`}}, true, `zip = "0150" or zip = "4"`},
		{[]audience.Rule{{"age", audience.RuleContains, "4"}, {"note", audience.RuleBeginsNot, `a "b"`}}, false, `age contains "4" and note not prefix "a \"b\""`},
		{[]audience.Rule{{"city", audience.RuleOneOf, `Oslo, "a, b", 4`}, {"city", audience.RuleNoneOf, "Bergen"}}, false, `city in ("Oslo", "a, b", 4) and city not in ("Bergen")`},
		{[]audience.Rule{{"tags", audience.RuleContains, "news"}, {"tags", audience.RuleContainsNot, "staff"}}, false, `tags contains "news" and tags not contains "staff"`},
		{[]audience.Rule{{"tags", audience.RuleOneOf, "news, sport"}, {"tags", audience.RuleNoneOf, "a, b"}}, false, `tags in ("news", "sport") and tags not in ("a", "b")`},
		{[]audience.Rule{{"tags", audience.RuleOneOf, "news, sport"}}, false, `tags in ("news", "sport")`},
		{[]audience.Rule{{"city", audience.RuleKnown, ""}, {"tags", audience.RuleUnknown, ""}}, false, `exists city and not exists tags`},
		{[]audience.Rule{{"created_at", audience.RuleAtLeast, "2026-01-31"}, {"last_seen_at", audience.RuleLess, "2026-01-31T12:00:00Z"}}, false, `created_at >= "2026-01-31" and last_seen_at < "2026-01-31T12:00:00Z"`},
		{[]audience.Rule{{"attributes.locale", audience.RuleIs, "4"}, {"locale", audience.RuleBegins, "nb"}, {"recipient", audience.RuleIs, "42"}}, false, `attributes.locale = 4 and locale prefix "nb" and recipient = "42"`},
		{[]audience.Rule{{"city", audience.RuleIs, `""`}, {"city", audience.RuleIs, `" a"`}, {"city", audience.RuleContains, `"\""`}}, true, `city = "" or city = " a" or city contains "\""`},
	} {
		got, err := audience.Build(c.rows, c.one)
		if err != nil || got != c.want {
			t.Errorf("%v is written %s, %v; want %s", c.rows, got, err, c.want)
			continue
		}
		if got == "" {
			continue
		}
		x, err := audience.Parse(got)
		if err != nil {
			t.Errorf("%s: %v", got, err)
			continue
		}
		if rows, one, ok := audience.Rules(x); !ok || !reflect.DeepEqual(rows, c.rows) || one != c.one {
			t.Errorf("%s is read back as %v, %t, %t; want %v", got, rows, one, ok, c.rows)
		}
	}
}

func TestWhatRowsCannotSayIsNotShownAsRows(t *testing.T) {
	for where, ok := range map[string]bool{
		`a = 1 and (b = 2 and c = 3)`:                     true,
		`not a = 1 or not exists b`:                       true,
		`a = 1 and (tags contains "x" or tags = "y")`:     true,
		`a = 1 and b = 2 or c = 3`:                        false,
		`a = 1 and (b = 2 or c = 3)`:                      false,
		`not (a = 1 and b = 2)`:                           false,
		`not a > 1`:                                       false, // it also holds for whoever has no a
		`not not a = 1`:                                   false,
		`a = 1e300`:                                       false,
		strings.Repeat("a = 1 and ", 49) + "a = 1":        true,
		strings.Repeat("a = 1 and ", 50) + "a = 1":        false,
		`a = 1 and (b = 2 or tags contains "x")`:          false,
		`attributes.tags = "x" and tags in ("a", "b, c")`: true,
	} {
		x, err := audience.Parse(where)
		if err != nil {
			t.Fatalf("%s: %v", where, err)
		}
		if rows, _, got := audience.Rules(x); got != ok {
			t.Errorf("%.60s: rows %t, want %t: %v", where, got, ok, rows)
		}
	}
}

func TestARowThatCannotBeWrittenIsNamed(t *testing.T) {
	for _, c := range []struct {
		row   audience.Rule
		value bool
		says  string
	}{
		{audience.Rule{Field: "", Op: audience.RuleIs, Value: "x"}, false, "say what is compared"},
		{audience.Rule{Field: "a b", Op: audience.RuleIs, Value: "x"}, false, "no name of an attribute"},
		{audience.Rule{Field: "and", Op: audience.RuleIs, Value: "x"}, false, "no name of an attribute"},
		{audience.Rule{Field: `x = 1 or city`, Op: audience.RuleIs, Value: "x"}, false, "no name of an attribute"},
		{audience.Rule{Field: "städte", Op: audience.RuleIs, Value: "x"}, false, "no name of an attribute"},
		{audience.Rule{Field: "city", Op: "like", Value: "x"}, false, "no comparison like"},
		{audience.Rule{Field: "city", Op: audience.RuleIs, Value: " "}, true, "is missing"},
		{audience.Rule{Field: "city", Op: audience.RuleOneOf, Value: "a,,b"}, true, "is missing"},
		{audience.Rule{Field: "city", Op: audience.RuleIs, Value: `"a" or x = "b"`}, true, "second quote"},
		{audience.Rule{Field: "city", Op: audience.RuleOneOf, Value: `"a`}, true, "closing quote"},
		{audience.Rule{Field: "city", Op: audience.RuleOneOf, Value: `"a" or, b`}, true, "second quote"},
		{audience.Rule{Field: "created_at", Op: audience.RuleMore, Value: "yesterday"}, true, "is no time"},
		{audience.Rule{Field: "created_at", Op: audience.RuleContains, Value: "2026-01-31"}, true, "which has no contains"},
		{audience.Rule{Field: "tags", Op: audience.RuleMore, Value: "2026"}, true, "tags can be asked"},
		{audience.Rule{Field: "channel", Op: audience.RuleIs, Value: "pigeon"}, true, "there is no channel"},
		{audience.Rule{Field: "city", Op: audience.RuleContains, Value: `""`}, true, "not empty"},
		{audience.Rule{Field: "city", Op: audience.RuleIs, Value: "a\x00"}, true, "NUL"},
	} {
		where, err := audience.Build([]audience.Rule{{Field: "a", Op: audience.RuleKnown}, c.row}, false)
		var bad *audience.RuleError
		if !errors.As(err, &bad) || bad.Row != 1 || bad.Value != c.value || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v is written %q, %v; want it refused, since %s", c.row, where, err, c.says)
		}
	}
}

// A value stays the value that a person typed, and rows that are read back say the same.
func TestAnyValueOfARowSurvives(t *testing.T) {
	pieces := []string{`"`, `\`, `,`, ` `, `'`, `a`, `0`, `1`, `.`, `-`, `e`, `(`, `)`, `or`, "\n", "é", `true`}
	ops := []audience.RuleOp{audience.RuleIs, audience.RuleIsNot, audience.RuleContains, audience.RuleBegins, audience.RuleOneOf, audience.RuleNoneOf, audience.RuleMore}
	r := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		value := ""
		for range r.IntN(6) {
			value += pieces[r.IntN(len(pieces))]
		}
		row := audience.Rule{Field: []string{"city", "tags", "locale"}[r.IntN(3)], Op: ops[r.IntN(len(ops))], Value: value}
		where, err := audience.Build([]audience.Rule{row, {Field: "x", Op: audience.RuleKnown}}, false)
		if err != nil {
			continue
		}
		x, err := audience.Parse(where)
		if err != nil {
			t.Fatalf("%+v is written %s: %v", row, where, err)
		}
		rows, one, ok := audience.Rules(x)
		if !ok || one || len(rows) != 2 {
			t.Fatalf("%+v is written %s and read as %+v, %t, %t", row, where, rows, one, ok)
		}
		again, err := audience.Build(rows, one)
		if err != nil {
			t.Fatalf("%s is read as %+v: %v", where, rows, err)
		}
		y, err := audience.Parse(again)
		if err != nil || x.String() != y.String() {
			t.Fatalf("%s is read and written again as %s, %v", where, again, err)
		}
	}
}

func TestAttributesOfAnExpressionAreListed(t *testing.T) {
	x, err := audience.Parse(`city = "Oslo" and (not age in (1, 2) or exists vip or tags contains "a") and attributes.locale = "x" and locale = "nb" and not city prefix "B"`)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(audience.AttributesIn(x), " "); got != "city age vip locale" {
		t.Errorf("listed are %s", got)
	}
}
