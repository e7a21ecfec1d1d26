package config

import (
	"fmt"
	"os"

	"github.com/philandstuff/dhall-golang/v6/core"
	"github.com/philandstuff/dhall-golang/v6/imports"
	"github.com/philandstuff/dhall-golang/v6/parser"
	"github.com/philandstuff/dhall-golang/v6/term"
)

// readDhall evaluates a Dhall file with its imports, and returns the record as plain Go values.
func readDhall(name string) (map[string]any, error) {
	text, err := os.ReadFile(name) //nolint:gosec // a file that the operator names
	if err != nil {
		return nil, err
	}
	parsed, err := parser.Parse(name, text)
	if err != nil {
		return nil, fmt.Errorf("parse Dhall: %w", err)
	}
	whole, err := imports.LoadWith(imports.NoCache{}, parsed, term.LocalFile(name))
	if err != nil {
		return nil, fmt.Errorf("resolve imports of Dhall: %w", err)
	}
	if _, err := core.TypeOf(whole); err != nil {
		return nil, fmt.Errorf("check types of Dhall: %w", err)
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

// plainDhall converts a Dhall value to a Go value: records, and lists made by toMap, become maps, and an alternative of a union becomes its
// name.
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
		return int64(v), nil //nolint:gosec // of an unsigned word: settings are far below
	case core.IntegerLit:
		return int64(v), nil
	case core.DoubleLit:
		return float64(v), nil
	case core.BoolLit:
		return bool(v), nil
	case core.PlainTextLit:
		return string(v), nil
	}
	if alternative, ok := core.Quote(v).(term.Field); ok {
		return alternative.FieldName, nil
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
