package template

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/sending/push"
)

// Limits of a message's variables.
const (
	MaxVariables      = 64
	maxVariableBytes  = 4 << 10  // limit for one value: a message of most channels has no more
	maxVariablesBytes = 16 << 10 // of all
)

// Variables are values of variables, the same for every recipient. In JSON, values are texts, numbers or booleans.
type Variables map[string]string

// UnmarshalJSON implements json.Unmarshaler. It keeps a number's text as given.
func (v *Variables) UnmarshalJSON(b []byte) error {
	var raw map[string]json.RawMessage
	if json.Unmarshal(b, &raw) != nil {
		return errors.New("must be an object of texts, numbers and booleans")
	}
	all := make(Variables, len(raw))
	for name, value := range raw {
		value = bytes.TrimSpace(value)
		switch value[0] {
		case '"':
			var text string
			if err := json.Unmarshal(value, &text); err != nil {
				return fmt.Errorf("%.60s: %w", name, err)
			}
			all[name] = text
		case '{', '[', 'n':
			return fmt.Errorf("%.60s must be a text, a number or a boolean", name)
		default:
			all[name] = string(value)
		}
	}
	*v = all
	return nil
}

// Check validates the variables; in is the name of the field that contains them.
func (v Variables) Check(in string) error {
	if len(v) > MaxVariables {
		return notification.BadField(in, "has %d members; at most %d are allowed", len(v), MaxVariables)
	}
	size := 0
	for _, name := range slices.Sorted(maps.Keys(v)) {
		switch value := v[name]; {
		case !variableName(name):
			return notification.BadField(in, "%.60q is not the name of a variable: it has A-Z a-z 0-9 _ . - and at most 128 of them", name)
		case len(value) > maxVariableBytes || !utf8.ValidString(value):
			return notification.BadField(in+"."+name, "must be text of at most %d bytes", maxVariableBytes)
		default:
			size += len(name) + len(value)
		}
	}
	if size > maxVariablesBytes {
		return notification.BadField(in, "has %d bytes; at most %d are allowed", size, maxVariablesBytes)
	}
	return nil
}

// Variable is a variable in a content.
type Variable struct {
	Name     string `json:"name"`
	Required bool   `json:"required"` // used without alternative text in at least one place
}

// Variables lists the variables of a content in all its languages, by name.
func (t *Content) Variables() []Variable {
	uses := t.uses()
	list := make([]Variable, len(uses.of))
	for i, u := range uses.of {
		list[i] = u.Variable
	}
	return list
}

// uses lists the places of variables in a content, in all its languages.
type uses struct {
	of    []use // by name
	bytes int   // of all texts
}

type use struct {
	Variable
	times int
}

func (t *Content) uses() (u uses) {
	found := make(map[string]use)
	for text := range t.texts() {
		u.bytes += len(text)
		for name, required := range variablesOf(text) {
			v := found[name]
			found[name] = use{Variable{name, v.Required || required}, v.times + 1}
		}
	}
	u.of = make([]use, 0, len(found))
	for _, name := range slices.Sorted(maps.Keys(found)) {
		u.of = append(u.of, found[name])
	}
	return u
}

// variablesOf returns the variables in a text, each with whether it lacks an alternative text.
func variablesOf(text string) iter.Seq2[string, bool] {
	return func(yield func(string, bool) bool) {
		for {
			_, rest, ok := strings.Cut(text, "{{")
			if !ok {
				return
			}
			inside, after, ok := strings.Cut(rest, "}}")
			if !ok {
				return
			}
			name, _, otherwise := strings.Cut(inside, "|")
			if name = strings.TrimSpace(name); variableName(name) && !yield(name, !otherwise) {
				return
			}
			text = after
		}
	}
}

// missing returns the first required variable without a value; empty: there is none.
func (u *uses) missing(given Variables) string {
	for _, v := range u.of {
		if _, ok := given[v.Name]; v.Required && !ok {
			return v.Name
		}
	}
	return ""
}

// maxFilledBytes limits a content after variables are filled in: one variable may occur in it thousands of times.
const maxFilledBytes = 256 << 10

// CheckFilled returns an error if the variables make the content too large.
func (t *Content) CheckFilled(field string, given Variables) error {
	u := t.uses()
	return u.checkFilled(field, given)
}

func (u *uses) checkFilled(field string, given Variables) error {
	size := u.bytes
	for _, v := range u.of {
		size += v.times * len(given[v.Name])
	}
	if size > maxFilledBytes {
		return notification.LapsedField(field, "make more than %d bytes of the content", maxFilledBytes)
	}
	return nil
}

// texts returns all texts of a content that may contain variables.
func (t *Content) texts() iter.Seq[string] {
	return func(yield func(string) bool) {
		c := &t.Content
		for _, text := range []string{c.Title, c.Body, c.Icon, c.Image, c.URL} {
			if !yield(text) {
				return
			}
		}
		for _, m := range push.TelegramMediums {
			if !yield(*m.Of(&c.Telegram)) {
				return
			}
		}
		for _, part := range c.Telegram.Album {
			if !yield(part.Media) {
				return
			}
		}
		if !buttonTexts(c.Telegram.Buttons, yield) || !actionTexts(c.WebPush.Actions, yield) {
			return
		}
		for _, v := range t.Locales {
			for _, text := range []string{v.Title, v.Body, v.Icon, v.Image, v.URL} {
				if !yield(text) {
					return
				}
			}
			if v.Telegram != nil && !buttonTexts(v.Telegram.Buttons, yield) || v.WebPush != nil && !actionTexts(v.WebPush.Actions, yield) {
				return
			}
		}
	}
}

func buttonTexts(rows [][]push.TelegramLink, yield func(string) bool) bool {
	for _, row := range rows {
		for _, b := range row {
			if !yield(b.Text) || !yield(b.URL) {
				return false
			}
		}
	}
	return true
}

func actionTexts(actions []push.Action, yield func(string) bool) bool {
	for _, a := range actions {
		if !yield(a.Title) || !yield(a.URL) {
			return false
		}
	}
	return true
}
