package main

import (
	"bytes"
	"encoding/json"
	"os"
	"runtime/debug"
	"strings"
	"testing"
)

func TestABillNamesWhatAProgramWasBuiltFrom(t *testing.T) {
	info := &debug.BuildInfo{
		GoVersion: "go1.26.8",
		Main:      debug.Module{Path: "godwit.dev/godwit", Version: "(devel)"},
		Deps: []*debug.Module{
			{Path: "example.org/b", Version: "v2.0.0+incompatible", Sum: "h1:b"},
			{Path: "example.org/a", Version: "v1.0.0", Replace: &debug.Module{Path: "example.org/fork", Version: "v1.0.1"}},
		},
		Settings: []debug.BuildSetting{{Key: "CGO_ENABLED", Value: "0"}},
	}
	var out bytes.Buffer
	if err := write(&out, info, "0.1.0"); err != nil {
		t.Fatal(err)
	}
	var got bill
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got.Format != "CycloneDX" || got.Metadata.Component.PURL != "pkg:golang/godwit.dev/godwit@0.1.0" {
		t.Errorf("it is a %s of %s", got.Format, got.Metadata.Component.PURL)
	}
	var parts []string
	for _, c := range got.Components {
		parts = append(parts, c.PURL)
	}
	want := "pkg:golang/example.org/b@v2.0.0%2Bincompatible pkg:golang/example.org/fork@v1.0.1 pkg:golang/std@1.26.8"
	if strings.Join(parts, " ") != want {
		t.Errorf("it names %q, want %q", parts, want)
	}
}

func TestTheBillOfThisProgramIsRead(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := run([]string{self, "0.1.0"}, &out); err != nil || !strings.Contains(out.String(), `"name": "std"`) {
		t.Errorf("%v\n%s", err, out.Bytes())
	}
	if err := run([]string{"main.go", "0.1.0"}, &out); err == nil || !strings.Contains(err.Error(), "main.go") {
		t.Errorf("what is no program: %v", err)
	}
}
