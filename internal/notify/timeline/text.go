package timeline

import (
	"fmt"
	"strings"
	"time"

	"godwit.dev/godwit/internal/sending/push"
)

// Text is a text of a timeline: an English pattern with its arguments. String says it in English, as the API and the command line do; the
// console translates the pattern, and writes times and numbers in the reader's form.
type Text struct {
	Pattern string // a place %s for each argument
	Args    []any  // string, uint32, time.Time, time.Duration, Hour, Reason, push.Channel, or Text
	Begins  bool   // the text begins a sentence: its first letter is a capital
}

// Hour is a time whose day has just been named.
type Hour time.Time

// Reason is why a message was not sent or did not arrive, as it is stored: in English, or in a provider's own words.
type Reason string

// phrase makes a text. The console finds its translatable patterns by this name.
func phrase(pattern string, args ...any) Text { return Text{Pattern: pattern, Args: args} }

// String says the text in English.
func (t Text) String() string {
	args := make([]any, len(t.Args))
	for i, arg := range t.Args {
		args[i] = english(arg)
	}
	s := t.Pattern
	if len(args) > 0 {
		s = fmt.Sprintf(s, args...)
	}
	if t.Begins && s != "" {
		s = strings.ToUpper(s[:1]) + s[1:]
	}
	return s
}

// english writes an argument of a text.
func english(arg any) string {
	switch v := arg.(type) {
	case time.Time:
		return clock(v)
	case Hour:
		return time.Time(v).UTC().Format("15:04:05")
	case time.Duration:
		return took(v)
	case push.Channel:
		return string(v)
	}
	return fmt.Sprint(arg)
}

// clock formats a time for sentences.
func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// took formats a duration for sentences.
func took(d time.Duration) string {
	d = max(d, 0)
	if d < time.Second {
		return d.Round(time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// times says how often something happened.
func times(n uint32) Text {
	if n == 1 {
		return phrase("once")
	}
	return phrase("%s times", n)
}

// because adds a reason, if there is one.
func because(t Text, reason string) Text {
	if reason == "" {
		return t
	}
	return phrase("%s: %s", t, Reason(reason))
}
