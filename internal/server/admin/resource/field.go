package resource

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/notify/notification"
)

// Remove is the name of the tick that removes a secret.
func Remove(name string) string { return "remove-" + name }

// Plain is a stored value as it stands in the form.
func (in *Input) Plain(raw json.RawMessage) string {
	switch {
	case in.write != nil:
		return in.write(raw)
	case in.Type == setting.List:
		return strings.Join(setting.Values{"": raw}.List(""), "\n")
	case in.Type == setting.Words:
		return strings.Join(wordsOf(raw), "\n")
	case in.Type == setting.Tree:
		var b bytes.Buffer
		if len(raw) == 0 || json.Indent(&b, raw, "", "  ") != nil {
			return string(raw)
		}
		return b.String()
	case in.Type == setting.Days:
		if len(raw) == 0 {
			return ""
		}
		return setting.Values{"": in.call(raw)}.Text("")
	}
	return setting.Values{"": raw}.Text("")
}

// Said is a stored value in a few words.
func (in *Input) Said(raw json.RawMessage) string {
	if in.Type == setting.Bool {
		return map[bool]string{true: "yes", false: "no"}[string(raw) == "true"]
	}
	text := in.Plain(raw)
	var chosen []string
	for _, o := range in.Options {
		if o.Value == text || in.Type == setting.List && slices.Contains(strings.Split(text, "\n"), o.Value) {
			chosen = append(chosen, o.Text)
		}
	}
	if len(chosen) > 0 {
		return strings.Join(chosen, ", ")
	}
	return strings.ReplaceAll(text, "\n", ", ")
}

// wordsOf returns words that are stored as a list or as a text.
func wordsOf(raw json.RawMessage) []string {
	v := setting.Values{"": raw}
	if list := v.List(""); len(list) > 0 {
		return list
	}
	return strings.Fields(v.Text(""))
}

// call is a stored value as the API has it.
func (in *Input) call(raw json.RawMessage) json.RawMessage {
	if in.Type == setting.Words {
		return setting.JSON(append([]string{}, wordsOf(raw)...))
	}
	return setting.Values{in.Name: raw}.Shown(in.Field)
}

// Rewritten reports whether a person writes the value in lines of its own form.
func (in *Input) Rewritten() bool { return in.read != nil }

// mostWords limits the entries of a list whose field has no limit of its own, as the API does.
const mostWords = 16

// value reads a field of a posted form. given is false for a secret that stays as it is.
func (in *Input) value(f url.Values) (raw json.RawMessage, given bool, problem string) {
	typed := strings.ReplaceAll(strings.TrimSpace(f.Get(in.Name)), "\r\n", "\n")
	switch {
	case in.Secret && !in.Kept && f.Has(Remove(in.Name)):
		return in.none(), true, ""
	case in.Secret && typed == "":
		return nil, false, ""
	case in.Type == setting.Bool:
		return setting.JSON(f.Has(in.Name)), true, ""
	case in.read != nil:
		raw, err := in.read(typed)
		if err != nil {
			problem = err.Error()
		}
		return raw, true, problem
	case in.Type == setting.List:
		return in.entries(f, typed)
	case in.Type == setting.Words:
		return setting.JSON(strings.Join(strings.Fields(typed), " ")), true, ""
	case typed == "":
		return in.none(), true, ""
	case in.Type == setting.Tree:
		if err := json.Unmarshal([]byte(typed), new(any)); err != nil {
			return nil, true, "it is no JSON: " + strings.TrimPrefix(err.Error(), "json: ")
		}
		return json.RawMessage(typed), true, ""
	case in.Type == setting.Days:
		d, err := notification.ParseDuration(typed)
		if err != nil {
			return nil, true, err.Error()
		}
		return setting.JSON(d), true, ""
	}
	return setting.JSON(typed), true, ""
}

// none is the value of a field that is left empty.
func (in *Input) none() json.RawMessage {
	switch in.Type {
	case setting.List:
		return setting.JSON([]string{})
	case setting.Tree:
		return json.RawMessage("null")
	case setting.Days:
		return setting.JSON(time.Duration(0))
	}
	return setting.JSON("")
}

// entries reads a list: the ticks, or a text with an entry a line.
func (in *Input) entries(f url.Values, typed string) (raw json.RawMessage, given bool, problem string) {
	list := f[in.Name]
	most := len(in.Options)
	if most == 0 {
		list = []string{}
		for entry := range strings.SplitSeq(typed, "\n") {
			if entry = strings.TrimSpace(entry); entry != "" {
				list = append(list, entry)
			}
		}
		if most = in.Most; most == 0 {
			most = mostWords
		}
	}
	if list == nil {
		list = []string{}
	}
	switch {
	case len(list) > most:
		problem = fmt.Sprintf("it has %d entries; at most %d are allowed", len(list), most)
	case len(in.Options) > 0:
		if i := slices.IndexFunc(list, func(s string) bool {
			return !slices.ContainsFunc(in.Options, func(o Option) bool { return o.Value == s })
		}); i >= 0 {
			problem = fmt.Sprintf("%.40q is none of these", list[i])
		}
	case slices.ContainsFunc(list, func(s string) bool { return strings.ContainsAny(s, " \t") }):
		problem = "an entry has a space: write one a line"
	}
	return setting.JSON(list), true, problem
}

// Read reads a posted form: the values, and what is wrong by the fields' names. Secrets that stay as they are have no value.
func Read(inputs []Input, f url.Values) (setting.Values, map[string]string) {
	values, problems := setting.Values{}, map[string]string{}
	for i := range inputs {
		raw, given, problem := inputs[i].value(f)
		if given {
			values[inputs[i].Name] = raw
		}
		if problem != "" {
			problems[inputs[i].Name] = problem
		}
	}
	return values, problems
}

// inputsOf returns the inputs of fields.
func inputsOf(fields []setting.Field) []Input {
	inputs := make([]Input, len(fields))
	for i, f := range fields {
		inputs[i].Field = f
	}
	return inputs
}

// Defaults returns the values of a new setting.
func Defaults(inputs []Input) setting.Values {
	v := setting.Values{}
	for i := range inputs {
		if inputs[i].Default != nil {
			v[inputs[i].Name] = inputs[i].Default
		}
	}
	return v
}

// Call writes the call of the API that does what a form does. Secrets are left out; so are fields without a value.
func Call(method, path, revision, kind string, inputs []Input, values setting.Values) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s\nAuthorization: Bearer KEY\n", method, path)
	switch {
	case revision != "":
		fmt.Fprintf(&b, "If-Match: %q\n", revision)
	case method == "PUT":
		b.WriteString("If-None-Match: *\n")
	}
	b.WriteString("\n{")
	between := "\n"
	member := func(name string, value json.RawMessage) {
		var indented bytes.Buffer
		if json.Indent(&indented, value, "  ", "  ") != nil {
			return
		}
		fmt.Fprintf(&b, "%s  %q: %s", between, name, indented.String())
		between = ",\n"
	}
	if kind != "" {
		member("kind", setting.JSON(kind))
	}
	for i := range inputs {
		in := &inputs[i]
		raw, there := values[in.Name]
		if !there || in.Secret || in.Type != setting.Bool && in.Plain(raw) == "" {
			continue
		}
		member(in.Name, in.call(raw))
	}
	b.WriteString("\n}")
	return b.String()
}
