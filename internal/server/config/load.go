package config

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/knadh/koanf/parsers/toml/v2"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/providers/posflag"
	"github.com/knadh/koanf/v2"
	"github.com/spf13/pflag"
)

// EnvPrefix is the prefix of environment variables for settings.
const EnvPrefix = "GODWIT_"

// DefaultFile is the configuration file that is read if it exists and no other file is named.
const DefaultFile = "godwit.toml"

// notSettings lists environment variables with the same prefix that are not settings.
var notSettings = []string{"GODWIT_CONFIG", "GODWIT_URL", "GODWIT_API_KEY", "GODWIT_CONTEXT", "GODWIT_TOKEN", "GODWIT_OPERATOR_KEY_FILE", "GODWIT_BENCH_SERVER"}

// DefaultData is the data folder unless a setting names another.
const DefaultData = "./godwit-data"

// Error says that a setting cannot be used. It names the key, the value and the value's origin.
type Error struct {
	Key, Value, Origin, Problem string
}

func (e *Error) Error() string {
	s := fmt.Sprintf("%s = %q %s", e.Key, e.Value, e.Problem)
	if e.Origin != "" && e.Origin != "default" {
		s += " (from " + e.Origin + ")"
	}
	return s
}

// AddFlags declares --config and a flag for each of the settings named, or for all of the server's own.
func AddFlags(fs *pflag.FlagSet, keys ...string) {
	fs.String("config", "", "configuration file (default: "+DefaultFile+" if it exists)")
	for _, f := range Known() {
		if len(keys) == 0 || slices.Contains(keys, f.Key) {
			f.addFlag(fs)
		}
	}
}

// AddSectionFlags declares a flag for each setting of modules.
func AddSectionFlags(fs *pflag.FlagSet, sections []Section) {
	for _, s := range sections {
		for _, f := range fieldsOf(nil, reflect.ValueOf(s.Settings).Elem()) {
			f.addFlag(fs)
		}
	}
}

func (f *Field) addFlag(fs *pflag.FlagSet) {
	if f.Type == "yes/no" {
		fs.Bool(f.Flag, f.Default == "true", f.Help)
		return
	}
	fs.String(f.Flag, f.Default, f.Help)
}

// Load makes the settings, including those of modules, from flags (may be nil), environment ("KEY=VALUE" each) and file, in this order of
// precedence, and checks them. Only flags that were set count. The error is an *Error, several joined, or an error about the file.
func Load(flags *pflag.FlagSet, environ []string, sections ...Section) (*Config, error) {
	c, err := defaults(sections)
	if err != nil {
		return nil, err
	}
	c.origin, c.lines = map[string]string{}, map[string]int{}
	values := koanf.New("\n") // keys are flat: the delimiter occurs in none
	if err := c.loadFile(values, flags, environ); err != nil {
		return nil, err
	}
	if err := c.loadEnv(values, environ); err != nil {
		return nil, err
	}
	if flags != nil {
		if err := c.loadFlags(values, flags); err != nil {
			return nil, err
		}
	}
	if err := c.loadCompat(values, environ); err != nil {
		return nil, err
	}
	var problems []error
	for _, f := range fields(c) {
		if !values.Exists(f.Key) {
			continue
		}
		text := f.text(values.Get(f.Key))
		if err := f.set(text); err != nil {
			problems = append(problems, &Error{f.Key, f.shown(text), c.place(f.Key), err.Error()})
		}
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	c.adaptToCompat()
	return c, c.Validate()
}

// text returns a value of the file, the environment or a flag as text.
func (f *Field) text(value any) string {
	array, ok := value.([]any)
	if !ok || f.Type != "list" {
		return fmt.Sprint(value)
	}
	list := make([]string, len(array))
	for i := range array {
		list[i] = fmt.Sprint(array[i])
	}
	return strings.Join(list, ",")
}

// FromValues makes the settings from values by key, and checks them. It reads neither files nor the environment.
func FromValues(values map[string]string, sections ...Section) (*Config, error) {
	const origin = "the options"
	c, err := defaults(sections)
	if err != nil {
		return nil, err
	}
	c.embedded, c.origin, c.lines = true, map[string]string{}, map[string]int{}
	var problems []error
	all := fields(c)
	for _, key := range slices.Sorted(maps.Keys(values)) {
		at := slices.IndexFunc(all, func(f Field) bool { return f.Key == key })
		if at < 0 {
			problems = append(problems, &Error{key, values[key], origin, "is no setting"})
			continue
		}
		c.origin[key] = origin
		if err := all[at].set(values[key]); err != nil {
			problems = append(problems, &Error{key, all[at].shown(values[key]), origin, err.Error()})
		}
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	c.adaptToCompat()
	return c, c.Validate()
}

// File returns the configuration file that flags and environment name; required is false for the default one.
func File(flags *pflag.FlagSet, environ []string) (name string, required bool) {
	if flags != nil {
		if f := flags.Lookup("config"); f != nil && f.Changed {
			return f.Value.String(), true
		}
	}
	if name := lookup(environ, "GODWIT_CONFIG"); name != "" {
		return name, true
	}
	return DefaultFile, false
}

// lookup returns the last value of an environment variable that is not empty: orchestrators pass unset variables as empty ones.
func lookup(environ []string, name string) string {
	for _, kv := range slices.Backward(environ) {
		if v, ok := strings.CutPrefix(kv, name+"="); ok && v != "" {
			return v
		}
	}
	return ""
}

func (c *Config) loadFile(values *koanf.Koanf, flags *pflag.FlagSet, environ []string) error {
	name, required := File(flags, environ)
	if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) && !required {
		return nil
	}
	if err := values.Load(file.Provider(name), toml.Parser()); err != nil {
		return fmt.Errorf("read configuration file %s: %w", name, AtLine(err))
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return fmt.Errorf("read configuration file: %w", err)
	}
	c.file = name
	known := knownKeys(c.sections...)
	for _, key := range values.Keys() {
		if table, _, nested := strings.Cut(key, "\n"); nested { // objects.client_retention is another way to write objects_client_retention
			flat := strings.ReplaceAll(key, "\n", "_")
			if !known[flat] {
				return fmt.Errorf("read configuration file %s: [%s] is a table; settings stand at the top level", name, table)
			}
			if err := values.Set(flat, values.Get(key)); err != nil {
				return fmt.Errorf("read configuration file %s: %w", name, err)
			}
			key = flat
		}
		if !known[key] {
			return fmt.Errorf("read configuration file %s: %w", name, &UnknownError{Key: key, Line: lineOf(text, key)})
		}
		c.origin[key] = name
		c.lines[key] = lineOf(text, key)
	}
	return nil
}

func (c *Config) loadEnv(values *koanf.Koanf, environ []string) error {
	known := knownKeys(c.sections...)
	return values.Load(env.Provider("\n", env.Opt{
		Prefix:      EnvPrefix,
		EnvironFunc: func() []string { return environ },
		TransformFunc: func(name, value string) (string, any) {
			key := strings.ToLower(strings.TrimPrefix(name, EnvPrefix))
			if !known[key] || value == "" { // orchestrators pass unset variables as empty ones
				return "", nil
			}
			c.origin[key] = name
			return key, value
		},
	}), nil)
}

func (c *Config) loadFlags(values *koanf.Koanf, flags *pflag.FlagSet) error {
	known := knownKeys(c.sections...)
	return values.Load(posflag.ProviderWithFlag(flags, "\n", values, func(f *pflag.Flag) (string, any) {
		key := strings.ReplaceAll(f.Name, "-", "_")
		if !f.Changed || !known[key] {
			return "", nil
		}
		c.origin[key] = "--" + f.Name
		return key, f.Value.String()
	}), nil)
}

// place returns the origin of a setting; for a file, with the line.
func (c *Config) place(key string) string {
	if n := c.lines[key]; n > 0 && c.Origin(key) == c.file {
		return fmt.Sprintf("%s, line %d", c.Origin(key), n)
	}
	return c.Origin(key)
}
