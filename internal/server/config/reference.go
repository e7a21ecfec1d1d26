package config

//go:generate go run ../../../tools/genconfig -o ../../../docs/reference/config.md

import (
	"fmt"
	"strings"
)

// Reference returns the reference page of all settings in Markdown, including those of modules.
func Reference(sections ...Section) string {
	var b strings.Builder
	b.WriteString(`<!-- Generated from internal/server/config by tools/genconfig. Do not edit. -->
# Settings

A setting is looked for in this order: command-line flag, environment variable, configuration file, default. The
file is ` + "`godwit.toml`" + ` in the working folder, or the one that ` + "`--config`" + ` or ` + "`GODWIT_CONFIG`" + ` names. It is flat TOML, but a table per part works as well
(` + "`objects.client_retention`" + ` is ` + "`objects_client_retention`" + `):

` + "```toml" + `
data      = "/var/lib/godwit"
http_addr = ":8080"
retain    = "7d"
min_free  = "256MB"
` + "```" + `

Sizes are written like 256KB, 16MB or 1GB (binary units), durations like 30s, 24h or 7d, rates like 25/s, 100/m or
off. A list is an array in the file; in flags and variables its entries have commas between them. ` + "`godwit config check`" + ` tells what is wrong; ` + "`godwit config show`" + ` shows every value and where it came from.
`)
	all := Known(sections...)
	for _, group := range groups(all) {
		fmt.Fprintf(&b, "\n## %s\n\n| key | flag | environment | type | default | what it is |\n|---|---|---|---|---|---|\n", group)
		for _, f := range all {
			if f.Group == group {
				fmt.Fprintf(&b, "| `%s` | `--%s` | `%s` | %s | %s | %s |\n", f.Key, f.Flag, f.Env, f.typeAndBounds(), code(f.Default), f.Help)
			}
		}
	}
	return b.String()
}

func groups(all []Field) (names []string) {
	seen := map[string]bool{}
	for _, f := range all {
		if !seen[f.Group] {
			seen[f.Group] = true
			names = append(names, f.Group)
		}
	}
	return names
}

func (f *Field) typeAndBounds() string {
	switch {
	case f.OneOf != nil:
		return strings.Join(f.OneOf, ", ")
	case f.Min != "":
		return fmt.Sprintf("%s, %s to %s", f.Type, f.Min, f.Max)
	}
	return f.Type
}

func code(s string) string {
	if s == "" {
		return ""
	}
	return "`" + s + "`"
}
