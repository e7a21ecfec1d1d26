package deploy

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// root is the repository's.
const root = ".."

// godwit is the server's program, built for the tests.
var godwit string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "godwit-deploy")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	godwit = filepath.Join(dir, "godwit")
	cmd := exec.Command("go", "build", "-o", godwit, "./cmd/godwit")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the server: %v\n%s", err, out)
		return 1
	}
	defer func() { _ = os.RemoveAll(made.dir) }()
	return m.Run()
}

// settings lets the server's program check the settings of a start: args are those of `serve`, env is KEY=VALUE.
func settings(t *testing.T, args, env []string) {
	t.Helper()
	if len(args) == 0 || args[0] != "serve" {
		t.Fatalf("%q does not serve", args)
	}
	cmd := exec.Command(godwit, slices.Concat([]string{"config", "check"}, args[1:])...)
	cmd.Dir, cmd.Env = t.TempDir(), env
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	if err := cmd.Run(); err != nil || complaints.Len() > 0 {
		t.Errorf("godwit %s\nwith %s\n%v: %s", strings.Join(args, " "), strings.Join(env, " "), err, complaints.Bytes())
	}
}

// knows fails the test if the program does not accept a command line; whether the command can succeed here does not
// matter.
func knows(t *testing.T, args ...string) {
	t.Helper()
	const usage = 2
	cmd := exec.Command(godwit, args...)
	cmd.Dir, cmd.Env = t.TempDir(), nil
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || exit != nil && exit.ExitCode() == usage {
		t.Errorf("godwit %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// tool finds a program on the system. If it is missing, the test is skipped, or fails where skipping is not allowed.
func tool(t *testing.T, name string) string {
	t.Helper()
	for _, where := range []string{name, filepath.Join("/usr/sbin", name)} {
		if path, err := exec.LookPath(where); err == nil {
			return path
		}
	}
	if os.Getenv("GODWIT_TEST_STRICT") != "" {
		t.Fatalf("%s is not installed", name)
	}
	t.Skipf("%s is not installed", name)
	return ""
}
