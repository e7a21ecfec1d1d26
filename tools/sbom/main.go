// Command sbom says what a program was built from: the modules that its file names, as a CycloneDX bill of materials.
//
//	sbom PROGRAM VERSION >godwit.cdx.json
package main

import (
	"cmp"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run(args []string, w io.Writer) error {
	if len(args) != 2 {
		return fmt.Errorf("usage: sbom PROGRAM VERSION")
	}
	info, err := buildinfo.ReadFile(args[0])
	if err != nil {
		return fmt.Errorf("read what %s was built from: %w", args[0], err)
	}
	return write(w, info, args[1])
}

// bill is the part of CycloneDX 1.5 that is used. It has neither a time nor a serial number, so that the same program has the same bill.
type bill struct {
	Format     string      `json:"bomFormat"`
	Spec       string      `json:"specVersion"`
	Version    int         `json:"version"`
	Metadata   metadata    `json:"metadata"`
	Components []component `json:"components"`
}

type metadata struct {
	Component component `json:"component"`
}

type component struct {
	Type       string     `json:"type"`
	Ref        string     `json:"bom-ref"`
	Name       string     `json:"name"`
	Version    string     `json:"version"`
	PURL       string     `json:"purl,omitempty"`
	Properties []property `json:"properties,omitempty"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

func write(w io.Writer, info *debug.BuildInfo, version string) error {
	program := module("application", info.Main.Path, version)
	for _, s := range info.Settings {
		program.Properties = append(program.Properties, property{"cdx:gomod:build:setting:" + s.Key, s.Value})
	}
	b := bill{Format: "CycloneDX", Spec: "1.5", Version: 1, Metadata: metadata{program}}
	b.Components = append(b.Components, module("library", "std", strings.TrimPrefix(info.GoVersion, "go")))
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		c := module("library", m.Path, m.Version)
		if m.Sum != "" {
			c.Properties = []property{{"cdx:gomod:sum", m.Sum}} // go.sum's hash is one of a list of files, not a plain file hash
		}
		b.Components = append(b.Components, c)
	}
	slices.SortStableFunc(b.Components, func(a, b component) int { return cmp.Compare(a.Name, b.Name) })
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(b)
}

func module(kind, path, version string) component {
	purl := "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
	return component{Type: kind, Ref: purl, Name: path, Version: version, PURL: purl}
}
