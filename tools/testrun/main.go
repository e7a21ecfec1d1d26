// Command testrun runs the Go tests in two concurrent runs of `go test`: packages named by -raced with the race detector, all others
// without it. It prints the events of both (`go test -json`) as whole lines, so that gotestsum reads them as one run. Before them it makes
// targets of the Makefile, all at once, and reports each as a package. A process that any of them leaves running is a failure.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

func main() {
	raced := flag.String("raced", "", "packages that are tested with the race detector, as patterns with spaces between them")
	flags := flag.String("flags", "", "flags of both runs of go test")
	raceFlags := flag.String("race-flags", "-race", "further flags of the run with the race detector")
	atOnce := flag.Int("p", 2*runtime.NumCPU(), "how many packages are tested at once, in both runs together")
	targets := flag.String("make", "", "targets that are made before the tests, with spaces between them")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, strings.Fields(*raced), strings.Fields(*flags), strings.Fields(*raceFlags), strings.Fields(*targets), *atOnce, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "testrun:", err)
		os.Exit(1)
	}
}

// patience is how long processes may take to end once all tests have ended.
const patience = time.Minute

func run(ctx context.Context, raced, flags, raceFlags, targets []string, atOnce int, patterns []string) error {
	with, without, err := divide(ctx, raced, patterns)
	if err != nil {
		return err
	}
	if err := adopt(); err != nil {
		return err
	}
	racedAtOnce, othersAtOnce := share(atOnce, len(with) > 0, len(without) > 0)
	out := &lines{to: os.Stdout}
	runs := []*exec.Cmd{
		goTest(ctx, "1", slices.Concat(flags, raceFlags), with, racedAtOnce),
		goTest(ctx, "0", flags, without, othersAtOnce),
	}
	failed := make([]error, len(runs)+1)
	failed[len(runs)] = makeAll(ctx, targets, out) // run first: their clients have shorter timeouts than a machine full of tests needs
	var wg sync.WaitGroup
	for i, cmd := range runs {
		if cmd != nil {
			wg.Go(func() { failed[i] = out.copyFrom(cmd) })
		}
	}
	wg.Wait()
	failed = append(failed, reportLeftover(out, patience))
	return errors.Join(failed...)
}

// divide lists the packages of the patterns, in order, and separates those that raced names from the others.
func divide(ctx context.Context, raced, patterns []string) (with, without []string, err error) {
	names, err := list(ctx, raced)
	if err != nil {
		return nil, nil, err
	}
	seen := map[string]bool{}
	for _, pattern := range patterns { // one by one, since go list sorts the packages of several patterns
		packages, err := list(ctx, []string{pattern})
		if err != nil {
			return nil, nil, err
		}
		for _, p := range packages {
			switch {
			case seen[p]:
			case slices.Contains(names, p):
				with = append(with, p)
			default:
				without = append(without, p)
			}
			seen[p] = true
		}
	}
	return with, without, nil
}

func list(ctx context.Context, patterns []string) ([]string, error) {
	if len(patterns) == 0 {
		return nil, nil
	}
	cmd := exec.CommandContext(ctx, "go", append([]string{"list"}, patterns...)...)
	cmd.Stderr = os.Stderr
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list packages %s: %w", strings.Join(patterns, " "), err)
	}
	return strings.Fields(string(text)), nil
}

// share divides the number of packages tested at once between both runs. Few packages have the race detector, and these compute more and
// wait less than others, so they get a fifth.
func share(atOnce int, raced, others bool) (forRaced, forOthers int) {
	switch {
	case !raced:
		return 0, max(atOnce, 1)
	case !others:
		return max(atOnce, 1), 0
	}
	forRaced = max(atOnce/5, 1)
	return forRaced, max(atOnce-forRaced, 1)
}

// goTest returns a run of go test, or nil if there are no packages. The race detector needs cgo; the product is built without it.
func goTest(ctx context.Context, cgo string, flags, packages []string, atOnce int) *exec.Cmd {
	if len(packages) == 0 {
		return nil
	}
	// Compilers and linkers need less time where they collect garbage less often. They alone are told so, and not by -exec, with which results are
	// not taken from the cache.
	const lessGarbage = "env GOGC=400 GOMEMLIMIT=2GiB"
	args := slices.Concat([]string{"test", "-json", "-p", strconv.Itoa(atOnce), "-toolexec", lessGarbage}, flags, packages)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }      // on an interrupt, go test ends the tests that it started
	cmd.Env = append(os.Environ(), "CGO_ENABLED="+cgo, "GO_EXTLINK_ENABLED=0") // Go's own linker needs less time than the system's
	cmd.Stderr = os.Stderr
	return cmd
}

// lines writes whole lines of several sources.
type lines struct {
	mu sync.Mutex
	to io.Writer
}

// copyFrom runs a command and copies its output.
func (l *lines) copyFrom(cmd *exec.Cmd) error {
	from, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("start go test: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start go test: %w", err)
	}
	readErr := l.copyLines(from)
	if readErr != nil {
		_, _ = io.Copy(io.Discard, from) // read the rest, so that the command does not block
	}
	if err := cmd.Wait(); err != nil {
		return errors.Join(readErr, fmt.Errorf("go test: %w", err))
	}
	return readErr
}

func (l *lines) copyLines(from io.Reader) error {
	r := bufio.NewReader(from)
	for {
		line, err := r.ReadBytes('\n')
		if len(line) > 0 {
			if err := l.write(line); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read events of go test: %w", err)
		}
	}
}

func (l *lines) write(line []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := l.to.Write(line); err != nil {
		return fmt.Errorf("print events of go test: %w", err)
	}
	return nil
}
