package words

import (
	"sync"

	"golang.org/x/text/language"
)

// mostAccepted limits the header with a browser's languages, in bytes: browsers send fewer than a hundred.
const mostAccepted = 500

var nearest = sync.OnceValue(func() language.Matcher {
	tags := make([]language.Tag, len(All))
	for i, l := range All {
		tags[i] = language.Make(l.Tag)
	}
	return language.NewMatcher(tags)
})

// Tagged returns the language with a tag; nil: the console does not speak it.
func Tagged(tag string) *Language {
	for _, l := range All {
		if l.Tag == tag {
			return l
		}
	}
	return nil
}

// Choose returns the language that a person chose, or else the nearest to those that their browser accepts, or else English.
func Choose(chosen, accepted string) *Language {
	if l := Tagged(chosen); l != nil {
		return l
	}
	if accepted == "" || len(accepted) > mostAccepted {
		return English
	}
	tags, _, err := language.ParseAcceptLanguage(accepted)
	if err != nil || len(tags) == 0 {
		return English
	}
	_, i, sure := nearest().Match(tags...)
	if sure == language.No {
		return English
	}
	return All[i]
}
