package admin

import (
	"fmt"
	"html"
	"slices"
	"time"

	template "github.com/DataDog/datadog-agent/pkg/template/html"

	"godwit.dev/godwit/internal/campaigns/audience"
	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/notify/timeline"
	"godwit.dev/godwit/internal/objects/object"
	"godwit.dev/godwit/internal/sending/push"
	"godwit.dev/godwit/internal/server/admin/words"
	"godwit.dev/godwit/internal/server/watch"
)

// speaking are the templates' functions that speak a language. A page says a text with t, and a text about a number of things with tn, so
// that a translator can write each of the language's plurals. th and tnh are for texts that have elements in them, such as <b> or a link;
// what is put into these is escaped. The English text is the key.
func speaking(l *words.Language) template.FuncMap {
	return template.FuncMap{
		"t": func(key any, args ...any) any { return said(l, l.Find(fmt.Sprint(key)), args) },
		"tn": func(n any, one, many string, args ...any) any {
			return said(l, l.FindN(whole(n), one, many), withNumber(n, args))
		},
		"th": func(key string, args ...any) template.HTML { return marked(l, l.Find(key), args) },
		"tnh": func(n any, one, many string, args ...any) template.HTML {
			return marked(l, l.FindN(whole(n), one, many), withNumber(n, args))
		},

		"language":    func() *words.Language { return l },
		"languages":   func() []*words.Language { return words.All },
		"scriptWords": func() string { return scriptWords(l) },

		"count":      func(n int64) template.HTML { return element(n, l.Number(n)) },
		"many":       func(n int) template.HTML { return element(int64(n), l.Number(int64(n))) },
		"decimal":    l.Decimal,
		"lasted":     l.Lasted,
		"when":       l.Time,
		"second":     l.Second,
		"day":        l.Day,
		"moment":     func(at time.Time) template.HTML { return timeElement(at, l.Time(at)) },
		"ends":       func(c *confirmation) any { return c.ends(l) },
		"version":    func(v object.Version) string { return versionText(l, v) },
		"pace":       func(r campaign.Rate) string { return rateWords(l, r) },
		"advised":    func(a watch.Advice) string { return advised(l, &a) },
		"do":         func(a watch.Advice) string { return l.Fill(l.Find(a.Hint), a.Args[:min(1, len(a.Args))]) },
		"why":        func(t watch.Turned) string { return l.T(t.Why()) },
		"reason":     func(stored string) string { return reasonIn(l, stored) },
		"told":       func(t timeline.Text) template.HTML { return told(l, t) },
		"channel":    func(ch any) string { return l.T(channelWord(push.Channel(fmt.Sprint(ch)))) },
		"field":      func(name string) string { return l.T(fieldWord(name)) },
		"channelsOf": func(endpoints []audience.Endpoint) string { return channelsOf(l, endpoints) },
		"called":     func(e audience.Endpoint) string { return nameOf(l, &e) },
		"device":     func(e audience.Endpoint) string { return deviceOf(l, &e) },

		"line":   func(f *form, name string, settings ...string) (line, error) { return lineIn(l, f, name, settings) },
		"choice": func(f *form, name string, options ...string) (line, error) { return choiceIn(l, f, name, options) },
		"steps":  stepChoice,
		"opsOf":  func(r builderRow) []option { return opsOf(l, r) },
		"deed":   func(name string, cursor int64) bulkButton { return newBulkButton(l, name, cursor) },
		"more":   func(save, list, label string) moreLines { return moreLines{save, list, l.T(label)} },
	}
}

// advised says in a language what needs attention.
func advised(l *words.Language, a *watch.Advice) string {
	args := slices.Clone(a.Args)
	for i, arg := range args {
		switch v := arg.(type) {
		case watch.Word:
			args[i] = l.T(string(v))
		case time.Time:
			args[i] = l.Time(v)
		case time.Duration:
			args[i] = l.Lasted(v)
		}
	}
	if a.Many != "" {
		return l.Fill(l.FindN(whole(a.Args[0]), a.Said, a.Many), args)
	}
	return l.Fill(l.Find(a.Said), args)
}

// key marks an English text that is said elsewhere.
func key(text string) string { return text }

// said puts arguments into a text. An argument that is an element stays one, and then the result is HTML.
func said(l *words.Language, text string, args []any) any {
	for _, arg := range args {
		if _, element := arg.(template.HTML); element {
			return marked(l, template.HTMLEscapeString(text), args)
		}
	}
	return l.Fill(text, args)
}

// marked puts arguments into a text with elements, and escapes all that are none.
func marked(l *words.Language, text string, args []any) template.HTML {
	safe := make([]any, len(args))
	for i, arg := range args {
		if element, ok := arg.(template.HTML); ok {
			safe[i] = string(element)
		} else {
			safe[i] = template.HTMLEscapeString(l.Say(arg))
		}
	}
	return template.HTML(l.Fill(text, safe))
}

func withNumber(n any, args []any) []any { return append([]any{n}, args...) }

// whole returns a number that a template counts with.
func whole(n any) int64 {
	switch v := n.(type) {
	case int:
		return int64(v)
	case int64:
		return v
	}
	return 0
}

func timeElement(at time.Time, text string) template.HTML {
	return template.HTML(`<time datetime="` + stamp(at) + `">` + html.EscapeString(text) + `</time>`)
}

// lineIn makes a field whose words are in a language.
func lineIn(l *words.Language, f *form, name string, settings []string) (line, error) {
	made, err := newLine(f, name, settings...)
	made.Hint, made.Placeholder = l.T(made.Hint), l.T(made.Placeholder)
	return made, err
}

// choiceIn makes a field whose choices are in a language.
func choiceIn(l *words.Language, f *form, name string, options []string) (line, error) {
	in := make([]string, len(options))
	for i, o := range options {
		if in[i] = o; i%2 == 1 {
			in[i] = l.T(o)
		}
	}
	return newChoice(f, name, in...)
}
