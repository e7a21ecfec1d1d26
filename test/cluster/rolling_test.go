package cluster

import (
	"context"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/testkit/thorough"
	"godwit.dev/godwit/test/blackbox"
)

var (
	former  = flag.Bool("former", false, "restart nodes of the commit before as nodes of this one, after a drain, and measure how long sessions are gone")
	release = flag.String("former-of", "HEAD~1", "the commit that nodes are restarted from with -former")
)

// TestARollingRestartGoesUnnoticed stops and starts one node after the other under load.
func TestARollingRestartGoesUnnoticed(t *testing.T) {
	t.Parallel()
	blackbox.Long(t)
	thorough.Only(t, "TestADrainedNodeGoesUnnoticedBehindHAProxy for one node, and TestNothingIsLostWhileNodesDieAndTheBusIsCut")
	c := Start(t, Options{Serve: []blackbox.Option{blackbox.Plain()}})
	l := startLoad(t, c.Front())
	for i, n := range c.Nodes {
		if code := n.Stop(); code != 0 {
			t.Errorf("%s exited with %d", Name(i), code)
		}
		if err := n.Launch(); err != nil {
			t.Fatal(err)
		}
		c.Joined(len(c.Nodes))
		l.told("after the restart of " + Name(i))
	}
	l.end()
}

// TestAnUpgradeGoesUnnoticed drains and stops nodes of an earlier commit, one after the other, and replaces them by nodes of this one,
// under load: `make upgrade`.
func TestAnUpgradeGoesUnnoticed(t *testing.T) {
	if !*former {
		t.Skip("builds the server of another commit and measures: -former runs it")
	}
	old := build(t, *release)
	c := Start(t, Options{Serve: []blackbox.Option{blackbox.Program(old)}})
	l := startLoad(t, c.Front())
	l.goesOn(5 * time.Second)
	for i, n := range c.Nodes {
		if out, err := n.Run("drain", "--data", n.Dir); err != nil {
			t.Fatal(out, err)
		}
		if code := n.Stop(); code != 0 {
			t.Errorf("%s exited with %d", Name(i), code)
		}
		blackbox.Plain()(n)
		if err := n.Launch(); err != nil {
			t.Fatal(err)
		}
		c.Joined(len(c.Nodes))
		l.told("after the upgrade of " + Name(i))
		l.goesOn(5 * time.Second) // old and new nodes run side by side
	}
	l.end()
	const most = 10 * time.Second
	if l.longest > most || l.gone > most {
		t.Errorf("a publish took %s and a session was gone for %s, want at most %s", l.longest, l.gone, most)
	}
}

// build builds the server of another commit.
func build(t *testing.T, commit string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	git := func(args ...string) (string, error) {
		out, err := exec.CommandContext(ctx, blackbox.Tool(t, "git"), append([]string{"-C", blackbox.Root()}, args...)...).Output()
		return strings.TrimSpace(string(out)), err
	}
	if _, err := git("rev-parse", "--verify", commit+"^{commit}"); err != nil {
		t.Skipf("the sources of %s are not here: %v", commit, err)
	}
	dir := t.TempDir()
	archive := filepath.Join(dir, "former.tar")
	if _, err := git("archive", "--format=tar", "--output="+archive, commit); err != nil {
		t.Fatal(err)
	}
	source, bin := filepath.Join(dir, "source"), filepath.Join(dir, "godwit")
	if err := os.Mkdir(source, 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(ctx, "tar", "-xf", archive, "-C", source).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-o", bin, "./cmd/godwit")
	cmd.Dir = source
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build the server of %s: %v: %s", commit, err, out)
	}
	return bin
}
