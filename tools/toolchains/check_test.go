package toolchains

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// checked runs the script in an environment with only the tools that the script uses, and with programs that print the given texts.
func checked(t *testing.T, programs map[string]string, args ...string) (says string, ok bool) {
	t.Helper()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	for _, name := range []string{"dirname", "sed", "grep", "head", "id"} {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Skip(err)
		}
		if err := os.Symlink(path, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for name, prints := range programs {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!"+bash+"\necho '"+prints+"'\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), bash, append([]string{"check"}, args...)...)
	cmd.Env = []string{"PATH=" + dir}
	out, err := cmd.CombinedOutput()
	return string(out), err == nil
}

func TestAllThatIsMissingIsSaidAtOnce(t *testing.T) {
	says, ok := checked(t, map[string]string{"apt-get": "", "python3": "Python 3.9.2", "curl": "", "go": "go version go1.19.8 linux/amd64"})
	if ok {
		t.Error("it is content")
	}
	for _, line := range []string{
		"Go 1.26 or newer (there is 1.19)", "C compiler", "Python 3.11 or newer, with venv (there is 3.9)", "Node 20 or newer, with npm",
		"apt-get install --no-install-recommends gcc libc6-dev python3 python3-venv nodejs npm git openssl", "https://go.dev/doc/install", "./check",
	} {
		if !strings.Contains(says, line) {
			t.Errorf("it does not say %q:\n%s", line, says)
		}
	}
}

func TestNothingIsSaidWhereNothingIsMissing(t *testing.T) {
	all := map[string]string{
		"go": "go version go1.27.1 linux/amd64", "gcc": "", "git": "", "curl": "", "openssl": "",
		"python3": "Python 3.14.0", "node": "v24.1.0", "npm": "",
	}
	if says, ok := checked(t, all); !ok || says != "" {
		t.Errorf("it says\n%s", says)
	}
	for _, name := range []string{"python3", "node", "npm"} {
		delete(all, name)
	}
	if says, ok := checked(t, all, "go"); !ok || says != "" {
		t.Errorf("of the Go tests it says\n%s", says)
	}
	if says, ok := checked(t, all); ok || !strings.Contains(says, "Node 20") {
		t.Errorf("of all it says\n%s", says)
	}
}
