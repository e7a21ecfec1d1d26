package admin

import (
	"regexp"
	"strconv"

	"godwit.dev/godwit/internal/server/admin/words"
)

// problemsOfExpressions are what may be wrong with an expression that picks people.
var problemsOfExpressions = []string{
	key("the expression is nested deeper than %s"),
	key("the expression has more than %s comparisons"),
	key("the list has more than %s values"),
	key("the text has no closing quote"),
	key("found a NUL character"),
	key("found %s, which means nothing here"),
	key("%s is not a number"),
	key("found %s where and, or, or the end is needed"),
	key("found %s where a closing bracket is needed"),
	key("found %s where the name of an attribute is needed"),
	key("found %s where in, contains or prefix after not is needed"),
	key("found %s where with after starts is needed"),
	key("found %s where a comparison (= != < <= > >= in contains prefix) is needed"),
	key("found %s where a list in brackets is needed"),
	key("found %s where a value (a text in quotes, a number, true or false) is needed"),
	key("found %s where a value is needed: texts stand in quotes, like %s"),
	key("%s is no name of an attribute"),
	key("tags can be asked with contains, in or exists, not with %s"),
	key("%s is a time, which has no %s"),
	key("%s needs a text in quotes, not %s"),
	key("%s needs a text that is not empty"),
	key(`%s is compared with a time in quotes, like "2026-01-31" or "2026-01-31T12:00:00Z"`),
	key("%s is compared with a text in quotes, not %s"),
	key("a tag is never empty"),
	key(`%s is no time; write it like "2026-01-31" or "2026-01-31T12:00:00Z"`),
}

var (
	knownInExpressions = sayingsOf(problemsOfExpressions)
	atCharacter        = regexp.MustCompile(`(?s)^(.*) at character (\d+)$`)
)

// end is how a problem of an expression names its end.
const end = "the end"

// expressionProblem says a problem of an expression as a sentence.
func expressionProblem(l *words.Language, text string) (said string, known bool) {
	found := atCharacter.FindStringSubmatch(text)
	if found == nil {
		said, known = knownInExpressions.in(l, text)
		return sentence(said), known
	}
	if said, known = knownInExpressions.in(l, found[1]); !known {
		return sentence(text), false
	}
	at, err := strconv.ParseInt(found[2], 10, 64)
	return upperFirst(l.T("%s at character %s.", said, at)), err == nil
}
