// Package config holds the server's settings: typed structs whose tags carry key, default and description. Flags,
// environment names, the configuration file and the reference page are all derived from it.
package config

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
)

// Config holds every setting of a server, in sections. The zero value is not usable: call Default or Load.
type Config struct {
	Data string `key:"data" default:"./godwit-data" group:"Storage" help:"folder that holds everything the server must not lose; one server per folder"`

	ListenerSettings
	BusSettings
	ClusterSettings
	CompatSettings
	PublicSettings
	TLSSettings
	DevSettings
	SignInSettings
	BootstrapSettings
	StorageSettings
	UploadSettings
	CapacitySettings
	ObjectSettings
	LimitSettings
	OperationSettings
	TuningSettings

	provenance
	embedded bool      // a program embeds the server, so no listener is needed
	sections []Section // of modules
}

// provenance records where values came from.
type provenance struct {
	origin map[string]string // by key
	file   string            // the configuration file; empty: none was read
	lines  map[string]int    // of that file, by key
}

// Off is the address that turns a listener off.
const Off = "off"

// Default returns the settings of a server with only defaults.
func Default() *Config {
	c, err := defaults(nil)
	if err != nil {
		panic("config: " + err.Error()) // a programming error that any test finds
	}
	return c
}

// Section holds the settings of a module.
type Section struct {
	Module   string
	Settings any // pointer to a struct whose fields have tags like those of Config
}

// Validator is implemented by sections with checks across several settings.
type Validator interface {
	// Validate calls bad for each unusable setting, with the problem in words.
	Validate(bad func(key, value, format string, args ...any))
}

// defaults makes settings with all defaults, including those of modules.
func defaults(sections []Section) (*Config, error) {
	c := &Config{}
	if err := setDefaults(fields(c)); err != nil {
		return nil, err
	}
	return c.With(sections...)
}

// With returns c with the missing sections of modules added, at their defaults.
func (c *Config) With(sections ...Section) (*Config, error) {
	more := *c
	more.sections = slices.Clip(c.sections)
	for _, s := range sections {
		if slices.Contains(more.sections, s) {
			continue
		}
		if err := setDefaults(fieldsOf(nil, reflect.ValueOf(s.Settings).Elem())); err != nil {
			return nil, err
		}
		more.sections = append(more.sections, s)
	}
	return &more, CheckSections(more.sections)
}

func setDefaults(list []Field) error {
	for _, f := range list {
		if err := f.set(f.Default); err != nil {
			return fmt.Errorf("default of %s: %w", f.Key, err)
		}
	}
	return nil
}

// notSections lists the flags of every command, which no section may use as keys.
var notSections = []string{"api_key_file", "ca", "config", "context", "help", "json", "url"}

// CheckSections returns an error if a section has the key of another setting.
func CheckSections(sections []Section) error {
	owners := make(map[string]string)
	for _, key := range notSections {
		owners[key] = "the command line"
	}
	for _, f := range Known() {
		owners[f.Key] = "the server"
	}
	for _, s := range sections {
		for _, f := range fieldsOf(nil, reflect.ValueOf(s.Settings).Elem()) {
			if other, taken := owners[f.Key]; taken {
				return fmt.Errorf("module %s brings the setting %s, which %s has", s.Module, f.Key, other)
			}
			owners[f.Key] = "module " + s.Module
		}
	}
	return nil
}

// Origin returns where a setting's value came from: default, a file's name, an environment variable or a flag.
func (c *Config) Origin(key string) string {
	if o := c.origin[key]; o != "" {
		return o
	}
	return defaultOrigin
}

// Said returns the settings that differ from their defaults, by key. It omits settings that may contain a secret, and the data folder,
// which other programs may see under another path.
func (c *Config) Said() map[string]string {
	values := map[string]string{}
	for _, f := range fields(c) {
		if v := f.Value(); v != f.Default && f.secret == "" && f.Key != "data" {
			values[f.Key] = v
		}
	}
	return values
}

// Adopt adopts another program's settings, except those that are set here.
func (c *Config) Adopt(values map[string]string, origin string) error {
	var problems []error
	for _, f := range fields(c) {
		v, said := values[f.Key]
		if !said || f.secret != "" || c.Origin(f.Key) != defaultOrigin {
			continue
		}
		if err := f.set(v); err != nil {
			problems = append(problems, &Error{f.Key, v, origin, err.Error()})
			continue
		}
		c.origin[f.Key] = origin
	}
	return errors.Join(problems...)
}

// defaultOrigin is the origin of a setting with its default value.
const defaultOrigin = "default"
