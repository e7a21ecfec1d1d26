// Package blackbox builds the real server, runs it as a process of its own and talks to it as clients and back ends
// do. The proofs beside it are tests that use it and nothing else of the server's code.
package blackbox

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Patience limits every wait for something that should happen immediately: far longer than a loaded machine needs.
const Patience = 60 * time.Second

// Root returns the repository's root folder: the nearest with a go.mod above the test's own. (The paths of source files are not available:
// -trimpath removes them.)
var Root = sync.OnceValue(func() string {
	dir, err := os.Getwd()
	for ; err == nil; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	panic(fmt.Sprintf("find the repository's root: no go.mod above %s (%v)", dir, err))
})

// Tool finds a program that the Makefile installed, or one of the system. Without it the test is skipped, or fails if GODWIT_TEST_STRICT is
// set.
func Tool(t testing.TB, names ...string) string {
	t.Helper()
	for _, name := range names {
		local := filepath.Join(Root(), ".bin", name)
		if info, err := os.Stat(local); err == nil && !info.IsDir() {
			return local
		}
		for _, where := range []string{name, filepath.Join("/usr/sbin", name)} { // Debian's folder for HAProxy, which is not in most users' PATH
			if p, err := exec.LookPath(where); err == nil {
				return p
			}
		}
	}
	Skip(t, "%v is not installed: run make test-tools", names)
	return ""
}

// Chromium finds the browser, with windows: push and permissions need it.
func Chromium(t testing.TB) string {
	t.Helper()
	return Tool(t, "chromium", "google-chrome", "chromium-browser")
}

// Pages finds the browser for pages that need neither push nor permissions: Chromium without windows, if it is there, since that takes two
// thirds of the time. In PATH Debian has a script that starts it as a child, which outlives the script when a test kills that.
func Pages(t testing.TB) string {
	t.Helper()
	return Tool(t, "/usr/lib/chromium/chromium-headless-shell", "chromium", "google-chrome", "chromium-browser")
}

// Skip skips a test because something is missing on the machine. In CI, where nothing may be missing, it fails the test.
func Skip(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("GODWIT_TEST_STRICT") != "" {
		t.Fatalf("cannot be skipped here: "+format, args...)
	}
	t.Skipf(format, args...)
}

// Long skips a test under -short, which `make quick` uses.
func Long(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes long")
	}
}

var (
	buildMu sync.Mutex
	built   = map[string]string{}
)

// unwatched builds SQLite, which is C translated to Go, without the race detector: there the detector takes most of the time and checks
// none of Godwit's code. The Makefile's TESTFLAGS contain the same, so that both share compiled packages.
const unwatched = "-gcflags=modernc.org/...=-race=false"

// Raced reports whether this test was built with the race detector.
func Raced() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// Binary builds the server once and returns its path; if race is true it is built with the race detector.
func Binary(t testing.TB, race bool) string {
	t.Helper()
	name, args := "godwit", []string{"build"}
	if race {
		name, args = "godwit-race", []string{"build", "-race", unwatched}
	}
	return Build(t, name, "./cmd/godwit", args...)
}

// Build builds a program of this module in .bin/test. The packages of a test run share it: the first one builds it, and for the others the
// go command finds it up to date.
func Build(t testing.TB, name, pkg string, goArgs ...string) string {
	t.Helper()
	buildMu.Lock()
	defer buildMu.Unlock()
	if p := built[name]; p != "" {
		return p
	}
	if err := readFolders(); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(Root(), ".bin", "test")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	unlock, err := lockFile(filepath.Join(dir, ".lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	out := filepath.Join(dir, name)
	if len(goArgs) == 0 {
		goArgs = []string{"build"}
	}
	// A cold build may take long: only the test run's own time limits it.
	cmd := exec.CommandContext(context.Background(), "go", append(goArgs, "-ldflags=-s -w", "-buildvcs=false", "-o", out, pkg)...)
	cmd.Dir = Root()
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // this and -ldflags: as the product is built
	if slices.Contains(goArgs, "-race") {
		cmd.Env = append(cmd.Env, "CGO_ENABLED=1") // which the race detector needs
	}
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", pkg, err, text)
	}
	built[name] = out
	return out
}

// readFolders reads the repository's folders, for Go to see that a test depends on the files in them: it takes a result from its cache only
// if nothing that the test itself has read is changed, and what the server is built from is read by another process.
func readFolders() error {
	return filepath.WalkDir(Root(), func(_ string, d fs.DirEntry, err error) error {
		if name := d.Name(); err == nil && d.IsDir() && (name == ".git" || name == ".bin" || name == "node_modules") {
			return filepath.SkipDir
		}
		return err
	})
}

// WriteProgram writes a program or a script. Meanwhile this process starts no other one: that would have the file open for writing for a
// moment, and until then the kernel refuses to execute it ("text file busy").
func WriteProgram(t testing.TB, name string, text []byte) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(name, text, 0o755); err != nil { // a program
		t.Fatal(err)
	}
}

func lockFile(name string) (unlock func(), err error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", name, err)
	}
	return func() { f.Close() }, nil
}

// StartPiped starts a program and returns its standard input and output.
func StartPiped(t testing.TB, cmd *exec.Cmd) (in io.WriteCloser, out io.Reader) {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err == nil {
		out, err = cmd.StdoutPipe()
	}
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	return in, out
}

// Eventually waits until ok returns nil; it fails the test with the last error when patience ends.
func Eventually(t testing.TB, what string, ok func() error) {
	t.Helper()
	EventuallyWithin(t, Patience, what, ok)
}

// EventuallyWithin is Eventually with a given patience.
func EventuallyWithin(t testing.TB, patience time.Duration, what string, ok func() error) {
	t.Helper()
	if err := Poll(t.Context(), patience, ok); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// Poll calls ok repeatedly until it returns nil or patience ends; then it returns the last error.
func Poll(ctx context.Context, patience time.Duration, ok func() error) error {
	const soonest, latest, share = 10 * time.Millisecond, 250 * time.Millisecond, 8 // of what it has waited
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for begun := time.Now(); ; {
		err := ok()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("gave up after %s: %w", patience, err)
		case <-time.After(min(max(time.Since(begun)/share, soonest), latest)):
		}
	}
}
