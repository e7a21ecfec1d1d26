package deploy

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// made is the folder that make dist has filled with what is handed out for Linux on amd64.
var made = struct {
	once sync.Once
	dir  string
	err  error
}{}

// version is the programs' own.
var version string

// handedOut returns the folder with what make dist makes. The first call makes it.
func handedOut(t *testing.T) string {
	t.Helper()
	made.once.Do(func() {
		if made.dir, made.err = os.MkdirTemp("", "godwit-dist"); made.err != nil {
			return
		}
		dist := filepath.Join(made.dir, "dist")
		cmd := exec.Command("make", "--no-print-directory", "dist", "PLATFORMS=linux-amd64", "DIST="+dist, "HOMEPAGE=https://example.net/godwit")
		cmd.Dir = root
		cmd.Env = slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "MAKE") || strings.HasPrefix(kv, "MFLAGS") })
		out, err := cmd.CombinedOutput()
		if err != nil {
			made.err = fmt.Errorf("make dist: %w\n%s", err, out)
		}
		said, err := exec.Command(godwit, "version").Output()
		made.err = errors.Join(made.err, err)
		version = strings.Fields(string(said) + " ? ?")[1]
	})
	if made.err != nil {
		t.Fatal(made.err)
	}
	return filepath.Join(made.dir, "dist")
}

// runIn runs a program in a folder and returns its output.
func runIn(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", filepath.Base(name), strings.Join(args, " "), err, out)
	}
	return string(out)
}

// try runs commands of a shell in a folder.
func try(t *testing.T, dir string, env []string, script string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-ec", script)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// one returns the only file of a pattern.
func one(t *testing.T, dir, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(found) != 1 {
		t.Fatalf("there are %q, want one %s (%v)", found, pattern, err)
	}
	return found[0]
}

// unpack unpacks an archive into a new folder and returns it.
func unpack(t *testing.T, name string) string {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return dir
		}
		if err == nil && h.Typeflag == tar.TypeReg {
			err = extract(r, filepath.Join(dir, filepath.Clean(h.Name)), os.FileMode(h.Mode&0o777)) // masked
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
}

func extract(r io.Reader, name string, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	var b bytes.Buffer
	if _, err := io.Copy(&b, r); err != nil { // an archive of ours
		return err
	}
	return os.WriteFile(name, b.Bytes(), mode)
}

// pages are the manual pages and completions that every package has, below its folder for them.
var pages = []string{"man/man1/godwit.1.gz", "man/man1/godwit-serve.1.gz", "man/man1/godwit-app-create.1.gz", "man/man1/godwit-bench-unicast.1.gz", "man/man5/godwit.toml.5.gz", "bash-completion/completions/godwit"}

func TestAnArchiveHoldsProgramsManualAndCompletions(t *testing.T) {
	dist := handedOut(t)
	name := "godwit-" + version + "-linux-amd64"
	dir := filepath.Join(unpack(t, filepath.Join(dist, name+".tar.gz")), name)
	for _, p := range append(slices.Clone(pages), "zsh/site-functions/_godwit", "fish/vendor_completions.d/godwit.fish") {
		if info, err := os.Stat(filepath.Join(dir, "share", p)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", p, err)
		}
	}
	for _, p := range []string{"godwit", "godwit-bench"} {
		if info, err := os.Stat(filepath.Join(dir, p)); err != nil || info.Mode().Perm() != 0o755 {
			t.Errorf("%s: %v", p, err)
		}
	}
	for _, p := range []string{"README.md", "CHANGELOG.md", "LICENSE", "godwit.service"} {
		if _, err := os.Stat(filepath.Join(dir, p)); err != nil {
			t.Error(err)
		}
	}
}

func TestChecksumsAreThoseOfTheFiles(t *testing.T) {
	dist := handedOut(t)
	entries, err := os.ReadDir(dist)
	if err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile(filepath.Join(dist, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != "SHA256SUMS" && !strings.Contains(string(sums), "  "+e.Name()+"\n") {
			t.Errorf("there is no checksum of %s", e.Name())
		}
	}
	runIn(t, dist, nil, "sha256sum", "--check", "--quiet", "--strict", "SHA256SUMS")
}

// Everything that a release hands out has the version of the program.
func TestAllPackagesHaveOneVersion(t *testing.T) {
	dist := handedOut(t)
	for _, name := range []string{"godwit_%s_amd64.deb", "godwit-%s-1.x86_64.rpm", "godwit-%s.tgz", "godwit_client-%s-py3-none-any.whl", "godwit_client-%s.tar.gz", "godwit-%s-linux-amd64.tar.gz"} {
		if _, err := os.Stat(filepath.Join(dist, fmt.Sprintf(name, version))); err != nil {
			t.Error(err)
		}
	}
	chart, err := os.ReadFile("helm/Chart.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if m := regexp.MustCompile(`(?m)^appVersion: "(.*)"$`).FindSubmatch(chart); m == nil || string(m[1]) != version {
		t.Errorf("the chart is of version %q, the program of %s", m, version)
	}
}
