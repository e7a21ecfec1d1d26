package template

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"golang.org/x/text/language"
)

// variant returns the texts for a reader's language; ok is false if the content's own texts apply. An exact match of the tag has
// precedence, then the nearest by BCP 47, which considers renamed tags (iw, now he), regions whose readers share a variety (en-AU reads
// en-GB before en-US) and the script that a region uses (zh-TW reads zh-Hant before zh).
func (t *Content) variant(locale string) (v Variant, ok bool) {
	tag := strings.ReplaceAll(locale, "_", "-")
	if len(t.Locales) == 0 || tag == "" || strings.EqualFold(t.Language, tag) {
		return Variant{}, false
	}
	if v, ok := t.Locales[tag]; ok {
		return v, true
	}
	for name, v := range t.Locales {
		if strings.EqualFold(name, tag) {
			return v, true
		}
	}
	v, ok = t.Locales[choices.nearest(tag, t.Language, slices.Sorted(maps.Keys(t.Locales)))]
	return v, ok
}

// choices caches which language is nearest: finding it takes 100 µs, and a campaign needs the result for each endpoint.
var choices chooser

// maxChoices limits the cache: readers have few languages, but anybody may send invented tags.
const maxChoices = 10_000

type chooser struct {
	mu    sync.Mutex
	found map[string]string
}

// nearest returns the language in names that is nearest to a reader's; "" if base is nearer, or no language is near.
func (c *chooser) nearest(tag, base string, names []string) string {
	key := tag + " " + base + " " + strings.Join(names, " ")
	c.mu.Lock()
	defer c.mu.Unlock()
	if name, ok := c.found[key]; ok {
		return name
	}
	if c.found == nil || len(c.found) >= maxChoices {
		c.found = make(map[string]string)
	}
	name := nearest(tag, base, names)
	c.found[key] = name
	return name
}

func nearest(tag, base string, names []string) string {
	want, err := language.Parse(tag)
	if err != nil {
		return nearestParent(tag, base, names)
	}
	have, called := []language.Tag{language.Und}, []string{""}
	if own, err := language.Parse(base); err == nil {
		have[0] = own
	}
	for _, name := range names {
		if t, err := language.Parse(name); err == nil {
			have, called = append(have, t), append(called, name)
		}
	}
	// Languages in the reader's own script come first: the matcher knows which other scripts readers can read, and may prefer a plain zh to
	// zh-HK for zh-Hant.
	if alike, of := written(want, have, called); len(alike) > 0 {
		_, at, _ := language.NewMatcher(alike).Match(want)
		return of[at]
	}
	_, at, confidence := language.NewMatcher(have).Match(want)
	// The matcher also returns other languages that most readers understand. That choice is left to the author.
	if confidence == language.No && !sameScript(want, have[at]) || family(want) != family(have[at]) {
		return ""
	}
	return called[at]
}

// written returns the variants in the reader's own language and script.
func written(want language.Tag, have []language.Tag, called []string) (alike []language.Tag, of []string) {
	for i, t := range have {
		if family(t) == family(want) && sameScript(want, t) {
			alike, of = append(alike, t), append(of, called[i])
		}
	}
	return alike, of
}

// family returns the common name of languages that share their readers.
func family(t language.Tag) string {
	canonical, err := language.All.Canonicalize(t)
	if err != nil {
		canonical = t
	}
	base, _ := canonical.Base()
	switch b := base.String(); b {
	case "nb", "nn":
		return "no" // written Norwegian has two forms, and all readers know both
	case "yue":
		return "zh" // Cantonese is written as Chinese
	default:
		return b
	}
}

// sameScript reports whether two languages are likely written in the same script.
func sameScript(a, b language.Tag) bool {
	x, _ := a.Script()
	y, _ := b.Script()
	return x == y
}

// nearestParent finds a language for an unregistered tag: for fr-old-x it tries fr-old, then fr.
func nearestParent(tag, base string, names []string) string {
	for ; tag != ""; tag = tag[:max(strings.LastIndexByte(tag, '-'), 0)] {
		if strings.EqualFold(tag, base) {
			return ""
		}
		for _, name := range names {
			if strings.EqualFold(tag, name) {
				return name
			}
		}
	}
	return ""
}
