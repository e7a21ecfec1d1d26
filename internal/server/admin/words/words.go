// Package words says the console's texts in the reader's language. The English text itself is the key, so that templates and code read
// well. The other languages lie in po/, one file of GNU gettext each: translators have editors for these, and the files know plurals.
package words

import (
	"embed"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/vorlif/spreak/catalog"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

//go:embed po/*.po
var files embed.FS

// Language is a language of the console.
type Language struct {
	Tag  string // BCP 47, as in the name of its file
	Name string // as its speakers call it
	Dir  string // ltr or rtl: the direction of its script

	texts func() catalog.Catalog // nil: the keys are its texts
	form  func() *message.Printer
}

// English is the language of the keys.
var English = &Language{Tag: "en", Name: "English", Dir: "ltr", form: printer("en")}

// All lists the languages, in the order in which the pages offer them.
var All = []*Language{
	English, translated("de", "Deutsch"), translated("es", "Español"), translated("fr", "Français"), translated("pt", "Português"), translated("hi", "हिन्दी"),
}

// translated returns a language with a file. The file is read when somebody first needs it: a start costs nothing.
func translated(tag, name string) *Language {
	return &Language{Tag: tag, Name: name, Dir: "ltr", form: printer(tag), texts: sync.OnceValue(func() catalog.Catalog {
		b, err := files.ReadFile("po/" + tag + ".po")
		if err != nil {
			return nil
		}
		texts, err := catalog.NewPoDecoder().Decode(language.Make(tag), "", b)
		if err != nil { // a test reads every file: pages in English are better than none
			return nil
		}
		return texts
	})}
}

func printer(tag string) func() *message.Printer {
	return sync.OnceValue(func() *message.Printer { return message.NewPrinter(language.Make(tag)) })
}

// T says a text. Each %s in it takes one argument, in their order or by number: %[2]s. Numbers are written in the language's form.
func (l *Language) T(key string, args ...any) string { return l.Fill(l.find(key), args) }

// N says a text about n things. The text's first argument is n.
func (l *Language) N(n int64, one, many string, args ...any) string {
	return l.Fill(l.FindN(n, one, many), append([]any{n}, args...))
}

// Find returns a text with its places for arguments; one that is in no file is returned as it is.
func (l *Language) Find(key string) string { return l.find(key) }

// FindN returns a text about n things with its places for arguments.
func (l *Language) FindN(n int64, one, many string) string {
	if texts := l.catalogue(); texts != nil {
		if text, err := texts.LookupPlural("", one, n); err == nil {
			return text
		}
	}
	if n == 1 {
		return one
	}
	return many
}

func (l *Language) find(key string) string {
	if texts := l.catalogue(); texts != nil && key != "" {
		if text, err := texts.Lookup("", key); err == nil {
			return text
		}
	}
	return key
}

func (l *Language) catalogue() catalog.Catalog {
	if l.texts == nil {
		return nil
	}
	return l.texts()
}

// Fill puts arguments into a text. A text without places for them needs none: "one message" says its number itself.
func (l *Language) Fill(text string, args []any) string {
	if len(args) == 0 || !strings.Contains(text, "%") {
		return text
	}
	said := make([]any, len(args))
	for i, arg := range args {
		said[i] = l.Say(arg)
	}
	return fmt.Sprintf(text, said...)
}

// Say writes an argument of a text.
func (l *Language) Say(arg any) string {
	switch v := arg.(type) {
	case string:
		return v
	case int:
		return l.Number(int64(v))
	case int64:
		return l.Number(v)
	case float64:
		return l.Decimal(v)
	case error:
		return v.Error()
	}
	return fmt.Sprint(arg)
}

// Number writes a whole number in the language's form: 1,234,567 or 12,34,567.
func (l *Language) Number(n int64) string { return l.form().Sprint(n) }

// Time writes a time, in UTC: pages show the reader's own time where scripts run.
func (l *Language) Time(at time.Time) string { return at.UTC().Format(l.T("2 Jan 2006, 15:04 UTC")) }

// Second writes a time with its seconds, in UTC.
func (l *Language) Second(at time.Time) string {
	return at.UTC().Format(l.T("2 Jan 2006, 15:04:05 UTC"))
}

// Day writes a day.
func (l *Language) Day(at time.Time) string { return at.Format(l.T("2 Jan")) }

// Lasted writes a duration in the largest unit that is precise enough.
func (l *Language) Lasted(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d >= 2*day:
		return l.N(int64(d/day), "%s day", "%s days")
	case d >= 2*time.Hour:
		return l.N(int64(d/time.Hour), "%s hour", "%s hours")
	case d >= 2*time.Minute:
		return l.N(int64(d/time.Minute), "%s minute", "%s minutes")
	case d >= time.Second:
		return l.T("%s s", int64(d/time.Second))
	}
	return l.T("%s ms", int64(d/time.Millisecond))
}
