package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func release() formula {
	return formula{Version: "1.2.3", Homepage: "https://example.org/godwit", Downloads: "https://example.org/godwit/v1.2.3"}
}

func archives(t *testing.T, platforms ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, p := range platforms {
		if err := os.WriteFile(filepath.Join(dir, "godwit-1.2.3-"+p+".tar.gz"), []byte(p), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestAFormulaNamesEachArchiveWithItsChecksum(t *testing.T) {
	platforms := []string{"linux-amd64", "linux-arm64", "darwin-amd64", "darwin-arm64"}
	var out strings.Builder
	f := release()
	if err := f.write(&out, archives(t, platforms...)); err != nil {
		t.Fatal(err)
	}
	for _, p := range platforms {
		want := fmt.Sprintf("      url \"https://example.org/godwit/v1.2.3/godwit-1.2.3-%s.tar.gz\"\n      sha256 \"%x\"\n", p, sha256.Sum256([]byte(p)))
		if strings.Count(out.String(), want) != 1 {
			t.Errorf("it lacks\n%s", want)
		}
	}
	if t.Failed() {
		t.Log(out.String())
	}
}

func TestAFormulaOfOnePlatformLeavesOutTheOthers(t *testing.T) {
	var out strings.Builder
	f := release()
	if err := f.write(&out, archives(t, "linux-amd64")); err != nil {
		t.Fatal(err)
	}
	if s := out.String(); strings.Contains(s, "on_macos") || strings.Count(s, "sha256") != 1 {
		t.Errorf("it is\n%s", s)
	}
}

func TestWhatNobodyCanInstallIsRefused(t *testing.T) {
	empty := archives(t)
	if err := os.WriteFile(filepath.Join(empty, "godwit-1.2.3-linux-amd64.tar.gz"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	whole := archives(t, "linux-amd64")
	for want, try := range map[string]struct {
		dir    string
		change func(f *formula)
	}{
		"is empty":                      {empty, func(*formula) {}},
		"no archive of version 1.2.4":   {whole, func(f *formula) { f.Version = "1.2.4" }},
		"version \"v1\"":                {whole, func(f *formula) { f.Version = "v1" }},
		"downloads \"http://x\" is no":  {whole, func(f *formula) { f.Downloads = "http://x" }},
		"homepage \"\" is no https URL": {whole, func(f *formula) { f.Homepage = "" }},
	} {
		f := release()
		try.change(&f)
		if err := f.write(&strings.Builder{}, try.dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
