package admin

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/server/admin/resource"
	"godwit.dev/godwit/internal/server/admin/words"
)

// settingLine is an input as the page shows it.
type settingLine struct {
	line
	Shape  string // tick, ticks, choice or text
	Remove string // label of the tick that removes a secret; empty: there is nothing to remove
	Shown  string // the value for those who may not change it
}

// wordOf returns what people call the field.
func wordOf(in *resource.Input, of string) string {
	if in.Word != "" {
		return in.Word
	}
	if word, ok := settingWords[of+"."+in.Name]; ok {
		return word
	}
	return upperFirst(strings.ReplaceAll(in.Name, "_", " "))
}

// hintOf explains the field. The help of fields is written for the command line, where a secret or a long text is in a file.
func hintOf(in *resource.Input, of string) string {
	if in.Hint != "" {
		return in.Hint
	}
	if hint, ok := settingHints[of+"."+in.Name]; ok {
		return hint
	}
	help := strings.TrimPrefix(in.Help, "file with ")
	return upperFirst(strings.Replace(help, " (repeatable)", "", 1))
}

// newSetting returns a field with the stored value, or with the input. A secret's value is never shown.
func newSetting(lang *words.Language, in *resource.Input, of string, s *resource.Stored, typed url.Values, problem string) settingLine {
	l := settingLine{
		line:  line{Name: in.Name, Label: lang.T(wordOf(in, of)), Field: in.Name, Hint: lang.T(hintOf(in, of)), Placeholder: in.Like, Problem: problem, Type: "text", Value: in.Plain(s.Values[in.Name]), On: s.Values.Bool(in.Name)},
		Shape: "text", Shown: saidIn(lang, in, s.Values[in.Name]),
	}
	chosen := s.Values.List(in.Name)
	if typed != nil {
		l.Value, l.On, chosen = typed.Get(in.Name), typed.Has(in.Name), typed[in.Name]
	}
	switch {
	case in.Type == setting.Bool:
		l.Shape = "tick"
	case len(in.Options) > 0 && in.Type == setting.List:
		l.Shape = "ticks"
	case len(in.Options) > 0:
		l.Shape, chosen = "choice", []string{l.Value}
	case in.Lines, in.Type == setting.List, in.Type == setting.Words && !in.Secret, in.Rewritten():
		l.Rows = "3"
	case in.Type == setting.Tree:
		l.Rows = "8"
	}
	for _, o := range in.Options {
		l.Options = append(l.Options, option{o.Value, lang.T(o.Text), slices.Contains(chosen, o.Value)})
	}
	if in.Secret {
		hide(lang, &l, in, s)
	}
	if in.Address {
		l.Shown = bare(l.Shown)
	}
	return l
}

// saidIn is a stored value in a few words of a language.
func saidIn(lang *words.Language, in *resource.Input, raw json.RawMessage) string {
	if in.Type != setting.Bool && len(in.Options) == 0 {
		return in.Said(raw)
	}
	said := strings.Split(in.Said(raw), ", ")
	for i := range said {
		said[i] = lang.T(said[i])
	}
	return strings.Join(said, ", ")
}

// hide empties the field of a secret.
func hide(lang *words.Language, l *settingLine, in *resource.Input, s *resource.Stored) {
	l.Value, l.Type, l.Placeholder, l.Shown = "", "password", lang.T("not set"), lang.T("not set")
	if slices.Contains(s.Secrets, in.Name) {
		l.Placeholder, l.Shown = lang.T("set; what is left empty stays"), lang.T("set")
		switch {
		case in.Anew != "":
			l.Remove = lang.T(in.Anew)
		case !in.Kept:
			l.Remove = lang.T("Do without it")
		}
	} else if in.Like != "" {
		l.Placeholder = in.Like
	}
}

// bare leaves out what may be secret in the addresses of a list.
func bare(shown string) string {
	parts := strings.Split(shown, ", ")
	for i, p := range parts {
		if p != "" && strings.Contains(p, "://") {
			parts[i] = withoutQuery(p)
		}
	}
	return strings.Join(parts, ", ")
}
