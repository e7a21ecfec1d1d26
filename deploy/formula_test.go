package deploy

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestHomebrewsFormulaInstallsTheArchive reads the formula as Ruby, with the words of Homebrew that it uses, and lets it install the
// archive into a folder and try the program.
func TestHomebrewsFormulaInstallsTheArchive(t *testing.T) {
	ruby := tool(t, "ruby")
	dist := handedOut(t)
	archive := one(t, dist, "godwit-*-linux-amd64.tar.gz")
	prefix := t.TempDir()
	script, err := filepath.Abs("testdata/homebrew.rb")
	if err != nil {
		t.Fatal(err)
	}
	from := one(t, unpack(t, archive), "godwit-*")
	out := runIn(t, t.TempDir(), nil, ruby, "-W:no-deprecated", script, filepath.Join(dist, "godwit.rb"), "linux", "intel", from, prefix)
	said := map[string]any{}
	if err := json.Unmarshal([]byte(out[strings.Index(out, "{"):]), &said); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	content, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(content)
	for what, want := range map[string]string{
		"sha256": hex.EncodeToString(sum[:]), "version": version, "license": "Apache-2.0", "homepage": "https://example.net/godwit",
		"url": "https://example.net/godwit/v" + version + "/" + filepath.Base(archive),
	} {
		if said[what] != want {
			t.Errorf("%s is %v, want %s", what, said[what], want)
		}
	}
	for _, p := range []string{
		"bin/godwit", "bin/godwit-bench", "share/man/man1/godwit.1.gz", "share/man/man5/godwit.toml.5.gz", "etc/bash_completion.d/godwit",
		"share/zsh/site-functions/_godwit", "share/fish/vendor_completions.d/godwit.fish", "share/doc/godwit/CHANGELOG.md",
	} {
		if _, err := os.Stat(filepath.Join(prefix, p)); err != nil {
			t.Error(err)
		}
	}
	servesBrew(t, said, prefix)
}

// servesBrew: the service runs the program with settings that there are, in a data folder that exists and is its user's alone.
func servesBrew(t *testing.T, said map[string]any, prefix string) {
	t.Helper()
	list := func(what string) (list []string) {
		values, _ := said["service "+what].([]any)
		for _, v := range values {
			list = append(list, v.(string))
		}
		return list
	}
	run, env := list("run"), list("environment_variables")
	if len(run) == 0 || run[0] != filepath.Join(prefix, "bin", "godwit") {
		t.Fatalf("the service runs %q", run)
	}
	settings(t, run[1:], env)
	data := filepath.Join(prefix, "var", "godwit")
	if !slices.Contains(env, "GODWIT_DATA="+data) || !slices.Equal(list("working_dir"), []string{data}) {
		t.Errorf("it keeps its data with %q in %q", env, list("working_dir"))
	}
	if info, err := os.Stat(data); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the data folder is %v (%v)", info, err)
	}
}
