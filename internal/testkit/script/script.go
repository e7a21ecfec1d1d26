// Package script runs testscript scripts of the command line: each command in a process of its own, as main runs it.
package script

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"godwit.dev/godwit/internal/testkit/pgserver"
	"godwit.dev/godwit/internal/testkit/thorough"
	"godwit.dev/godwit/tools/mutate/mutant"
)

// Params returns the parameters for the scripts in testdata/script, which can use the command "exits" and the conditions "postgresql" and
// "thorough".
func Params() testscript.Params {
	return testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Condition:           condition,
		Setup: func(e *testscript.Env) error {
			e.Setenv("GORACE", "atexit_sleep_ms=10") // otherwise every process takes a second to end under the race detector
			for _, v := range os.Environ() {
				if strings.HasPrefix(v, mutant.Variable) { // these variables break the program on purpose: see tools/mutate
					e.Vars = append(e.Vars, v)
				}
			}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
	}
}

// condition implements the condition "postgresql": PostgreSQL's programs are installed (if no test may be skipped, they must be). It also
// implements "thorough": make check-all is running, which includes tests too slow for each change.
func condition(name string) (bool, error) {
	switch name {
	case "postgresql":
		_, err := pgserver.Programs()
		return err == nil || os.Getenv("GODWIT_TEST_STRICT") != "", nil
	case "thorough":
		return thorough.Run(), nil
	}
	return false, fmt.Errorf("there is no condition %q", name)
}

// exits CODE ARGS... runs godwit with these arguments and compares its exit code.
func exits(ts *testscript.TestScript, _ bool, args []string) {
	got := "0"
	if err := ts.Exec("godwit", args[1:]...); err != nil {
		var failed *exec.ExitError
		if !errors.As(err, &failed) {
			ts.Fatalf("run: %v", err)
		}
		got = strconv.Itoa(failed.ExitCode())
	}
	if got != args[0] {
		ts.Fatalf("godwit %s exited %s, want %s", strings.Join(args[1:], " "), got, args[0])
	}
}
