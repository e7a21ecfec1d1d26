package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// UnknownEnv lists variables with the prefix of settings that are no setting: misspelt, or set by an orchestrator.
func UnknownEnv(environ []string, sections ...Section) []string {
	known := knownKeys(sections...)
	var out []string
	for _, kv := range environ {
		name, _, _ := strings.Cut(kv, "=")
		key, ok := strings.CutPrefix(name, EnvPrefix)
		if ok && !known[strings.ToLower(key)] && !slices.Contains(notSettings, name) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

func knownKeys(sections ...Section) map[string]bool {
	keys := map[string]bool{}
	for _, f := range Known(sections...) {
		keys[f.Key] = true
	}
	return keys
}

// UnknownError says that a key of the configuration file is not a setting.
type UnknownError struct {
	Key  string
	Line int // 0: not known
}

func (e *UnknownError) Error() string {
	s := "unknown setting " + e.Key
	if e.Line > 0 {
		s += fmt.Sprintf(" in line %d", e.Line)
	}
	if k := strings.ReplaceAll(e.Key, "-", "_"); k != e.Key && knownKeys()[k] { // written as flags are
		s += "; write " + k
	}
	return s
}

// AtLine adds the line to an error in a TOML file.
func AtLine(err error) error {
	var at interface {
		error
		Position() (row, column int)
	}
	if !errors.As(err, &at) {
		return err
	}
	row, column := at.Position()
	return fmt.Errorf("line %d, column %d: %w", row, column, err)
}

// lineOf returns the line of a file that sets a key at the top level; 0: none was found.
func lineOf(text []byte, key string) int {
	for i, line := range strings.Split(string(text), "\n") {
		name, _, ok := strings.Cut(line, "=")
		if ok && strings.Trim(strings.TrimSpace(name), `"'`) == key {
			return i + 1
		}
	}
	return 0
}
