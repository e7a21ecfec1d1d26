package admin

import (
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"godwit.dev/godwit/internal/server/admin/words"
)

// saying recognizes the English texts that were made of one pattern.
type saying struct {
	key     string
	pattern *regexp.Regexp
}

// sayings recognizes texts that other parts of the program have made of patterns and arguments, and that come as a whole.
type sayings func() []saying

// sayingsOf prepares patterns when somebody first needs them. The first that fits counts: special patterns come before general ones.
func sayingsOf(keys []string) sayings {
	return sync.OnceValue(func() []saying {
		all := make([]saying, len(keys))
		for i, key := range keys {
			all[i] = saying{key, regexp.MustCompile("(?s)^" + strings.ReplaceAll(regexp.QuoteMeta(key), "%s", "(.+?)") + "$")}
		}
		return all
	})
}

// deepest limits how many texts a text consists of: a reason may give another reason.
const deepest = 4

// in says a text in a language. known is false for a text that was made of no pattern: it is returned as it is.
func (all sayings) in(l *words.Language, text string) (said string, known bool) {
	if l == words.English {
		return text, true
	}
	return all.at(l, text, deepest)
}

func (all sayings) at(l *words.Language, text string, depth int) (said string, known bool) {
	if depth == 0 {
		return text, false
	}
	list := all()
	for i := range list {
		one := &list[i]
		found := one.pattern.FindStringSubmatch(text)
		if found == nil {
			continue
		}
		args := make([]any, len(found)-1)
		for i, arg := range found[1:] {
			args[i] = one.argument(l, arg)
		}
		if last := len(args) - 1; last >= 0 && strings.HasSuffix(one.key, ": %s") { // the reason for it
			args[last], _ = all.at(l, found[last+1], depth-1)
		}
		return l.T(one.key, args...), true
	}
	return text, false
}

// argument says what stands in a place of a text: a number, a time or a name.
func (s *saying) argument(l *words.Language, arg string) any {
	if n, err := strconv.ParseInt(arg, 10, 64); err == nil && !strings.Contains(s.key, "category %s") { // which may be called 2026
		return n
	}
	if arg == end {
		return l.T(end)
	}
	if origin, ok := strings.CutPrefix(arg, "webhook at "); ok {
		return l.T("webhook at %s", origin)
	}
	if at, err := time.Parse(time.RFC3339, arg); err == nil {
		return l.Second(at)
	}
	return arg
}
