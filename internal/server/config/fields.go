package config

import (
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Field describes one setting.
type Field struct {
	Key     string // in godwit.toml: http_addr
	Flag    string // without dashes in front: http-addr
	Env     string // GODWIT_HTTP_ADDR
	Group   string
	Type    string // text, number, yes/no, size, duration, rate, list
	Default string
	Min     string
	Max     string
	OneOf   []string
	Help    string

	secret string // url: a URL that may contain a password, or several, separated by commas; text: never shown
	index  []int  // of the value in the struct
	value  reflect.Value
}

// Fields describes every setting of c in the order of the reference page; Value returns its value in c.
func Fields(c *Config) []Field { return fields(c) }

// Known describes every setting of a server, with the sections of modules.
func Known(sections ...Section) []Field { return fields(&Config{sections: sections}) }

func fields(c *Config) []Field {
	out := fieldsOf(nil, reflect.ValueOf(c).Elem())
	for _, s := range c.sections {
		out = fieldsOf(out, reflect.ValueOf(s.Settings).Elem())
	}
	return out
}

// fieldsOf adds the settings of a struct and of those that it embeds.
func fieldsOf(out []Field, v reflect.Value) []Field {
	known, ok := described.Load(v.Type())
	if !ok {
		known, _ = described.LoadOrStore(v.Type(), describe(nil, v, nil))
	}
	for _, f := range known.([]Field) {
		f.value = v.FieldByIndex(f.index)
		out = append(out, f)
	}
	return out
}

// described has the settings of each type without their values: to read the tags takes a millisecond, and each command with flags asks.
var described sync.Map

func describe(out []Field, v reflect.Value, within []int) []Field {
	for i := range v.NumField() {
		index := append(slices.Clone(within), i)
		if v.Type().Field(i).Anonymous {
			out = describe(out, v.Field(i), index)
			continue
		}
		tag := v.Type().Field(i).Tag
		key, ok := tag.Lookup("key")
		if !ok {
			continue
		}
		f := Field{
			Key: key, Flag: strings.ReplaceAll(key, "_", "-"), Env: EnvPrefix + strings.ToUpper(key),
			Group: tag.Get("group"), Default: tag.Get("default"), Min: tag.Get("min"), Max: tag.Get("max"),
			Help: tag.Get("help"), Type: typeName(v.Field(i)), secret: tag.Get("secret"), index: index,
		}
		if o := tag.Get("oneof"); o != "" {
			f.OneOf = strings.Split(o, ",")
		}
		out = append(out, f)
	}
	return out
}

func typeName(v reflect.Value) string {
	switch v.Interface().(type) {
	case Size:
		return "size"
	case Duration:
		return "duration"
	case Rate:
		return "rate"
	case List:
		return "list"
	case bool:
		return "yes/no"
	case int:
		return "number"
	}
	return "text"
}

// Value returns the setting's value as written in a file, without a password.
func (f *Field) Value() string { return f.shown(fmt.Sprint(f.value.Interface())) }

// shown removes a password from a value.
func (f *Field) shown(value string) string {
	switch {
	case f.secret == "" || value == "":
		return value
	case f.secret == "text":
		return hidden
	}
	var list []string
	for u := range strings.SplitSeq(value, ",") {
		list = append(list, Redacted(u))
	}
	return strings.Join(list, ",")
}

// hidden is shown in place of a secret.
const hidden = "xxxxx"

// Redacted returns a URL without its password. It hides a text that is not a URL completely, since the text may be a password.
func Redacted(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return hidden
	}
	if q := u.Query(); q.Has("password") {
		q.Set("password", hidden)
		u.RawQuery = q.Encode()
	}
	return u.Redacted()
}

// set parses s into the setting and checks its limits. The error gives the reason, without key and value.
func (f *Field) set(s string) error {
	v, err := f.parse(s)
	if err != nil {
		return err
	}
	if err := f.inBounds(v); err != nil {
		return err
	}
	f.value.Set(reflect.ValueOf(v))
	return nil
}

func (f *Field) parse(s string) (any, error) {
	switch f.value.Interface().(type) {
	case Size:
		return ParseSize(s)
	case Duration:
		return ParseDuration(s)
	case Rate:
		return ParseRate(s)
	case List:
		return ParseList(s), nil
	case bool:
		b, err := strconv.ParseBool(s)
		if err != nil {
			return nil, fmt.Errorf("is neither true nor false")
		}
		return b, nil
	case int:
		n, err := strconv.Atoi(s)
		if err != nil {
			return nil, fmt.Errorf("is not a whole number")
		}
		return n, nil
	}
	return s, nil
}

func (f *Field) inBounds(v any) error {
	if f.OneOf != nil {
		for _, o := range f.OneOf {
			if v == any(o) {
				return nil
			}
		}
		return fmt.Errorf("must be one of: %s", strings.Join(f.OneOf, ", "))
	}
	if f.Min == "" {
		return nil
	}
	least, err := f.parse(f.Min)
	if err != nil {
		return err
	}
	most, err := f.parse(f.Max)
	if err != nil {
		return err
	}
	if n := reflect.ValueOf(v).Int(); n < reflect.ValueOf(least).Int() || n > reflect.ValueOf(most).Int() {
		return fmt.Errorf("must be between %s and %s", f.Min, f.Max)
	}
	return nil
}
