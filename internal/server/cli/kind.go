package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/knadh/koanf/parsers/toml/v2"
	"github.com/spf13/pflag"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/campaigns/textfile"
	"godwit.dev/godwit/internal/cluster/setting"
	"godwit.dev/godwit/internal/notify/notification"
)

// fieldFlags adds the flags of fields. Several kinds may use the same flag.
func fieldFlags(f *pflag.FlagSet, fields []setting.Field) {
	for _, field := range fields {
		switch {
		case f.Lookup(field.Flag) != nil:
		case field.Type == setting.List:
			f.StringSlice(field.Flag, nil, field.Help)
		case field.Type == setting.Bool:
			f.Bool(field.Flag, false, field.Help)
		default:
			f.String(field.Flag, "", field.Help)
		}
	}
}

// fieldValues returns the values of fields whose flags are given.
func fieldValues(f *pflag.FlagSet, fields []setting.Field) (setting.Values, error) {
	v := setting.Values{}
	for _, field := range fields {
		flag := f.Lookup(field.Flag)
		switch {
		case !flag.Changed:
		case field.Secret:
			secret, err := readPassword(flag.Value.String())
			if err != nil {
				return nil, err
			}
			if secret != nil {
				setting.Put(v, field.Name, string(*secret))
			}
		case field.Type == setting.List:
			list, err := f.GetStringSlice(field.Flag)
			if err != nil {
				return nil, err
			}
			setting.Put(v, field.Name, list)
		case field.Type == setting.Days:
			if _, err := notification.ParseDuration(flag.Value.String()); err != nil {
				return nil, usagef("--%s: %w", field.Flag, err)
			}
			setting.Put(v, field.Name, flag.Value.String())
		case field.Type == setting.Bool:
			on, err := f.GetBool(field.Flag)
			if err != nil {
				return nil, err
			}
			setting.Put(v, field.Name, on)
		case field.Type == setting.Tree, field.Lines:
			var err error
			if v[field.Name], err = readSetting(flag.Value.String(), field); err != nil {
				return nil, err
			}
		default:
			setting.Put(v, field.Name, flag.Value.String())
		}
	}
	return v, nil
}

// readSetting reads the value of a field from a file: lines as they are, or a tree as JSON or TOML. Of a TOML file, whose top is always a
// table, the value is the member of the field's name. No file is an empty value.
func readSetting(file string, field setting.Field) (json.RawMessage, error) {
	if file == "" && field.Type == setting.Tree {
		return json.RawMessage("null"), nil
	}
	if file == "" {
		return setting.JSON(""), nil
	}
	b, err := os.ReadFile(file)
	switch {
	case err != nil:
		return nil, fmt.Errorf("read --%s: %w", field.Flag, err)
	case field.Type != setting.Tree:
		return setting.JSON(string(textfile.Plain(b))), nil
	case json.Valid(b):
		return b, nil
	}
	members, err := toml.Parser().Unmarshal(b)
	if err != nil {
		return nil, usagef("--%s: %s is neither JSON nor TOML: %w", field.Flag, file, err)
	}
	value, ok := members[field.Name]
	if !ok {
		return nil, usagef("--%s: %s has no %s", field.Flag, file, field.Name)
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return nil, usagef("--%s: %s: %w", field.Flag, file, err)
	}
	return raw, nil
}

// readPassword reads a password from a file; nil if no file is named.
func readPassword(file string) (*access.Secret, error) {
	if file == "" {
		return nil, nil
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read password: %w", err)
	}
	password := access.Secret(textfile.Plain(b))
	return &password, nil
}

// ofKind is an app's setting of a kind as the API shows it, without secrets.
type ofKind map[string]json.RawMessage

func (o ofKind) text(name string) (text string) {
	_ = json.Unmarshal(o[name], &text) // absent, or of another type
	return text
}

// addresses returns the addresses to which the setting leads.
func (o ofKind) addresses(fields []setting.Field) (list []string) {
	for _, f := range fields {
		if !f.Address {
			continue
		}
		if text := o.text(f.Name); text != "" {
			list = append(list, text)
		} else {
			list = append(list, setting.Values(o).List(f.Name)...)
		}
	}
	return list
}

// summary returns the setting in one line: the addresses, and which texts, secrets and lists are set.
func (o ofKind) summary(fields []setting.Field) string {
	parts, lists := o.addresses(fields), []string{}
	for _, f := range slices.SortedFunc(slices.Values(fields), func(a, b setting.Field) int { return cmp.Compare(a.Name, b.Name) }) {
		switch list := setting.Values(o).List(f.Name); {
		case f.Address, f.Secret:
		case len(list) > 0:
			lists = append(lists, fmt.Sprintf("%s=%d", f.Name, len(list)))
		case o.text(f.Name) != "":
			parts = append(parts, f.Name+"="+o.text(f.Name))
		}
	}
	for _, name := range setting.Values(o).List("credentials") {
		parts = append(parts, name+"=(set)")
	}
	return clean(strings.Join(append(parts, lists...), " "))
}

// state returns whether the setting is enabled, in words.
func (o ofKind) state() string { return enabledText(setting.Values(o).Bool("enabled")) }

// printAdded prints that a setting of a kind was added or changed, and its destination.
func (p *program) printAdded(what, name string, o ofKind, fields []setting.Field) error {
	if p.json {
		return p.line(o)
	}
	did := "changed"
	if string(o["created_at"]) == string(o["updated_at"]) {
		did = "added"
	}
	_, err := fmt.Fprintf(p.stdout, "%s %s is %s: %s, %s.\n", title(what), name, did, o.state(), clean(strings.Join(o.addresses(fields), " ")))
	return err
}
