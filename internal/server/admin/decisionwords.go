package admin

import (
	"regexp"
	"strconv"
	"strings"

	"godwit.dev/godwit/internal/server/admin/words"
)

// reasonsOfDecisions are the reasons with which campaigns decide between their variants.
var reasonsOfDecisions = []string{
	key("somebody chose it"),
	key("no clicks were counted, so the rest gets the first variant"),
	key("no views were counted, so the rest gets the first variant"),
	key("%s has the larger share: %s clicks of %s for A, %s of %s for B"),
	key("%s has the larger share: %s views of %s for A, %s of %s for B"),
	key("both have the same share, so the rest gets the first variant: %s clicks of %s for A, %s of %s for B"),
	key("both have the same share, so the rest gets the first variant: %s views of %s for A, %s of %s for B"),
}

// reasonPatterns find the arguments of the reasons.
var reasonPatterns = func() (all []*regexp.Regexp) {
	for _, text := range reasonsOfDecisions {
		all = append(all, regexp.MustCompile("^"+strings.ReplaceAll(regexp.QuoteMeta(text), "%s", `(\w+)`)+"$"))
	}
	return all
}()

// decisionReason says in a language why a campaign has decided. The stored reason is in English; an unknown one stays as it is.
func decisionReason(l *words.Language, stored string) string {
	for i, pattern := range reasonPatterns {
		found := pattern.FindStringSubmatch(stored)
		if found == nil {
			continue
		}
		args := make([]any, 0, len(found))
		for _, arg := range found[1:] {
			if n, err := strconv.ParseInt(arg, 10, 64); err == nil {
				args = append(args, n)
			} else {
				args = append(args, arg)
			}
		}
		return l.T(reasonsOfDecisions[i], args...)
	}
	return stored
}
