package config

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/philandstuff/dhall-golang/v6/core"
	"github.com/philandstuff/dhall-golang/v6/imports"
	"github.com/philandstuff/dhall-golang/v6/parser"
	"github.com/philandstuff/dhall-golang/v6/term"
)

// dhallWithin limits the evaluation of a Dhall file: the library waits for imports over HTTP without limit.
const dhallWithin = 30 * time.Second

// readDhall evaluates a Dhall file with its imports, and returns the record as plain Go values.
func readDhall(name string, within time.Duration) (map[string]any, error) {
	type result struct {
		record map[string]any
		err    error
	}
	done := make(chan result, 1)
	go func() { // nothing can end it earlier than its imports do; a program whose settings cannot be read ends
		record, err := evaluateDhall(name)
		done <- result{record, err}
	}()
	late := time.NewTimer(within)
	defer late.Stop()
	select {
	case r := <-done:
		return r.record, r.err
	case <-late.C:
		return nil, fmt.Errorf("resolve imports of Dhall: they did not come in %s", within)
	}
}

func evaluateDhall(name string) (map[string]any, error) {
	text, err := os.ReadFile(name) // a file that the operator names
	if err != nil {
		return nil, err
	}
	parsed, err := parser.Parse(name, text)
	if err != nil {
		return nil, fmt.Errorf("parse Dhall: %w", withoutValues(err, text))
	}
	whole, err := imports.LoadWith(imports.NoCache{}, parsed, term.LocalFile(name))
	if err != nil {
		return nil, fmt.Errorf("resolve imports of Dhall: %w", withoutValues(err, text))
	}
	if _, err := core.TypeOf(whole); err != nil {
		return nil, fmt.Errorf("check types of Dhall: %w", withoutValues(err, text))
	}
	value, err := plainDhall(core.Eval(whole))
	if err != nil {
		return nil, err
	}
	record, ok := value.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("evaluate Dhall: the file is no record of settings")
	}
	return record, nil
}

// placeInDhall is the place of a mistake: the file or env:NAME, the line and the column.
var placeInDhall = regexp.MustCompile(`^.+?:\d+:\d+ \(\d+\)`)

// withoutValues returns an error of the library without text of imported files and environment variables, which may be a secret.
func withoutValues(err error, file []byte) error {
	said := err.Error()
	name, unbound := strings.CutPrefix(said, "Unbound variable")
	name = strings.Trim(name, ": ")
	switch at := placeInDhall.FindString(said); {
	case at != "":
		return fmt.Errorf("%s: this is no Dhall; a text in a file or an environment variable is imported like env:NAME as Text", at)
	case unbound && !bytes.Contains(file, []byte(name)):
		return errors.New("an import has a variable that is not bound; a text in a file or an environment variable is imported like env:NAME as Text")
	case strings.HasPrefix(said, "Assertion failed"):
		return errors.New("an assertion does not hold")
	}
	return err
}

// plainDhall converts a Dhall value to a Go value: records, and lists made by toMap, become maps. An alternative of a union becomes its value,
// or its name if it has none, as dhall-to-json has it.
func plainDhall(v core.Value) (any, error) {
	switch v := v.(type) {
	case core.RecordLit:
		return plainRecord(v)
	case core.EmptyList:
		return []any{}, nil
	case core.NonEmptyList:
		return plainList(v)
	case core.Some:
		return plainDhall(v.Val)
	case core.NoneOf:
		return nil, nil
	case core.NaturalLit:
		return int64(v), nil // of an unsigned word: settings are far below
	case core.IntegerLit:
		return int64(v), nil
	case core.DoubleLit:
		return float64(v), nil
	case core.BoolLit:
		return bool(v), nil
	case core.PlainTextLit:
		return string(v), nil
	}
	switch alternative := core.Quote(v).(type) {
	case term.Field:
		return alternative.FieldName, nil
	case term.App:
		if _, ok := alternative.Fn.(term.Field); ok {
			return plainDhall(core.Eval(alternative.Arg))
		}
	}
	return nil, fmt.Errorf("evaluate Dhall: a %T is no setting", v)
}

func plainRecord(r core.RecordLit) (map[string]any, error) {
	record := make(map[string]any, len(r))
	for name, field := range r {
		value, err := plainDhall(field)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if value != nil { // None leaves the setting unset
			record[name] = value
		}
	}
	return record, nil
}

func plainList(l core.NonEmptyList) (any, error) {
	list, named := make([]any, 0, len(l)), make(map[string]any, len(l))
	for _, item := range l {
		value, err := plainDhall(item)
		if err != nil {
			return nil, err
		}
		list = append(list, value)
		if entry, ok := value.(map[string]any); ok && len(entry) == 2 {
			if key, ok := entry["mapKey"].(string); ok {
				named[key] = entry["mapValue"]
			}
		}
	}
	if len(named) == len(list) {
		return named, nil
	}
	return list, nil
}
