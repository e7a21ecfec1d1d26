package admin

import (
	"html"
	"time"

	template "github.com/DataDog/datadog-agent/pkg/template/html"

	"godwit.dev/godwit/internal/notify/timeline"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/server/admin/words"
)

// told says a text of a timeline in a language. Its times are elements, which the script writes in the reader's zone.
func told(l *words.Language, t timeline.Text) template.HTML {
	pattern := l.Find(t.Pattern)
	if t.Begins && pattern != "" && pattern[0] != '%' { // a name keeps its first letter
		pattern = upperFirst(pattern)
	}
	args := make([]any, len(t.Args))
	for i, arg := range t.Args {
		args[i] = toldArgument(l, arg)
	}
	return marked(l, html.EscapeString(pattern), args)
}

// toldArgument is an argument of a timeline's text in a language.
func toldArgument(l *words.Language, arg any) any {
	switch v := arg.(type) {
	case timeline.Text:
		return told(l, v)
	case timeline.Reason:
		return reasonIn(l, string(v))
	case push.Channel:
		return l.T(channelWord(v))
	case uint32:
		return int64(v)
	case time.Duration:
		return l.Lasted(max(v, 0))
	case time.Time:
		return spelled(v, "seconds", l.Second(v))
	case timeline.Hour:
		at := time.Time(v)
		return spelled(at, "clock", at.UTC().Format("15:04:05"))
	}
	return arg
}

// spelled is a time within a sentence, which the script writes in the reader's zone with a form of its own.
func spelled(at time.Time, form, text string) template.HTML {
	return template.HTML(`<time datetime="` + stamp(at) + `" data-` + form + `>` + html.EscapeString(text) + `</time>`)
}
