package deploy

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// commands returns the commands of a page's block that begins with a word.
func commands(t *testing.T, page, begins string) string {
	t.Helper()
	for _, block := range strings.Split(read(t, filepath.Join(root, "docs", page)), "```sh\n")[1:] {
		if text, _, _ := strings.Cut(block, "```"); strings.HasPrefix(text, begins) {
			return text
		}
	}
	t.Fatalf("%s has no commands that begin with %q", page, begins)
	return ""
}

// TestASignatureIsMadeAndCheckedAsTheGuidesSay signs what make dist makes with a key of the test, by the commands of the release recipe, and
// checks it by those of the guide for users: before and after a file was changed.
func TestASignatureIsMadeAndCheckedAsTheGuidesSay(t *testing.T) {
	minisign := tool(t, "minisign")
	dir := t.TempDir()
	runIn(t, "", nil, "cp", "-r", handedOut(t), filepath.Join(dir, "dist"))
	runIn(t, dir, nil, minisign, "-G", "-W", "-p", "godwit.pub", "-s", "godwit.key")
	env := []string{"VERSION=" + version}
	sign := commands(t, "releasing.md", "minisign -S ")
	runIn(t, dir, env, "sh", "-ec", strings.ReplaceAll(sign, "~/.minisign/godwit.key", "godwit.key"))

	key := strings.Fields(read(t, filepath.Join(dir, "godwit.pub")))
	check := commands(t, "guides/install.md", "minisign -V")
	if !strings.Contains(check, "$GODWIT_PUBLIC_KEY") {
		t.Fatalf("the guide checks with %s", check)
	}
	dist := filepath.Join(dir, "dist")
	env = append(env, "GODWIT_PUBLIC_KEY="+key[len(key)-1])
	out := runIn(t, dist, env, "sh", "-ec", check)
	if !regexp.MustCompile(`Trusted comment: godwit `+regexp.QuoteMeta(version)+`\b`).MatchString(out) || !strings.Contains(out, "godwit_"+version+"_amd64.deb: OK") {
		t.Errorf("the check says\n%s", out)
	}
	for _, file := range []string{"SHA256SUMS", "godwit_" + version + "_amd64.deb"} {
		name := filepath.Join(dist, file)
		before := read(t, name)
		put(t, name, before+"\n")
		if out, err := try(t, dist, env, check); err == nil {
			t.Errorf("nobody notices that %s was changed:\n%s", file, out)
		}
		if err := os.WriteFile(name, []byte(before), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
