package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"godwit.dev/godwit/tools/mutate/mutant"
)

// mostRuns is how often a package's tests are tried without a mutant. On a shared machine a run fails now and then.
const mostRuns = 5

// suiteBinary is a package's compiled tests.
type suiteBinary struct {
	path, dir string
	skip      string        // tests that fail without a mutant, in the form of -test.skip
	took      time.Duration // without a mutant
	reached   map[int]bool  // mutants in code that the tests run
}

// run runs a package's compiled tests, all of them if test is empty. Number 0 is the unchanged code.
func (b *suiteBinary) run(ctx context.Context, number int, limit time.Duration, test string, env ...string) (red bool, out string) {
	ctx, cancel := context.WithTimeout(ctx, limit+10*time.Second)
	defer cancel()
	args := []string{"-test.short", "-test.failfast", "-test.timeout", limit.String()}
	if b.skip != "" {
		args = append(args, "-test.skip", b.skip)
	}
	if test != "" {
		args = append(args, "-test.run", test)
	}
	cmd := exec.CommandContext(ctx, b.path, args...)
	cmd.Dir, cmd.Env = b.dir, append(os.Environ(), mutant.Variable+"="+strconv.Itoa(number), "TMPDIR="+filepath.Dir(b.path))
	cmd.Env = append(cmd.Env, env...)
	cmd.WaitDelay = 5 * time.Second
	// A failing test may leave processes behind.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stop := func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Cancel = stop
	text, err := cmd.CombinedOutput()
	if cmd.Process != nil {
		_ = stop()
	}
	return err != nil, string(text)
}

// failed matches tests that failed or did not end.
var failed = regexp.MustCompile(`(?m)^--- FAIL: (\w+)|^running tests:\n\s+(\w+)`)

// redTest returns the test that failed first, in the form of -test.run.
func redTest(out string) string {
	m := failed.FindStringSubmatch(out)
	if m == nil {
		return ""
	}
	return "^" + cmp.Or(m[1], m[2]) + "$"
}

// notices returns why the tests fail with a mutant, or "" if they pass. A failure counts only if it repeats.
func (b *suiteBinary) notices(ctx context.Context, number int) (why string) {
	limit := 20*time.Second + 2*b.took
	red, out := b.run(ctx, number, limit, "")
	if !red {
		return ""
	}
	if test := redTest(out); test != "" {
		if red, again := b.run(ctx, number, 20*time.Second+b.took, test); red {
			return reason(again)
		}
	}
	if red, out = b.run(ctx, number, limit, ""); red {
		return reason(out)
	}
	return ""
}

// measure runs the tests without a mutant, and records how long they take and which mutants' places they reach. A test that fails twice is
// left out.
func (b *suiteBinary) measure(ctx context.Context, dir string) error {
	last, out := "", ""
	for range mostRuns {
		reached := filepath.Join(dir, filepath.Base(b.path)+".reached")
		if err := os.WriteFile(reached, nil, 0o600); err != nil {
			return err
		}
		var red bool
		begun := time.Now()
		red, out = b.run(ctx, 0, patience, "", mutant.ReachedVariable+"="+reached)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case !red:
			b.took, b.reached = time.Since(begun), map[int]bool{}
			text, err := os.ReadFile(reached)
			for _, line := range strings.Fields(string(text)) {
				n, _ := strconv.Atoi(line)
				b.reached[n] = true
			}
			return err
		}
		if test := redTest(out); test != "" && test == last {
			b.skip = strings.TrimPrefix(b.skip+"|"+test, "|")
		} else {
			last = test
		}
	}
	return fmt.Errorf("%s is red without a mutant:\n%s", b.dir, tail(out))
}

// each calls f for all elements of a list, on as many goroutines as jobs says, until the context ends.
func each[T any](ctx context.Context, jobs int, list []T, f func(T)) {
	var wg sync.WaitGroup
	turn := make(chan T)
	for range cmp.Or(jobs, runtime.GOMAXPROCS(0)) {
		wg.Go(func() {
			for v := range turn {
				f(v)
			}
		})
	}
	for _, v := range list {
		if ctx.Err() != nil {
			break
		}
		turn <- v
	}
	close(turn)
	wg.Wait()
}

// baseline checks that the tests pass without a mutant.
func (d *drawing) baseline(ctx context.Context, dir string, binaries map[string]*suiteBinary) error {
	var mu sync.Mutex
	var all error
	done, begun := 0, time.Now()
	each(ctx, d.jobs, slices.Sorted(maps.Keys(binaries)), func(path string) {
		b := binaries[path]
		err := b.measure(ctx, dir)
		mu.Lock()
		defer mu.Unlock()
		all = errors.Join(all, err)
		done++
		fmt.Fprintf(d.out, "%s %s is green, %s\n", progress(done, len(binaries), begun), strings.TrimPrefix(path, module+"/"), b.took.Round(100*time.Millisecond))
	})
	return cmp.Or(ctx.Err(), all)
}

// try runs the tests of each mutant, until one fails.
func (d *drawing) try(ctx context.Context, drawn []*point, tests map[string][]string, binaries map[string]*suiteBinary, log *results) (survived []*point, tried int, err error) {
	var mu sync.Mutex
	begun := time.Now()
	each(ctx, d.jobs, drawn, func(p *point) {
		r, since := result{Mutant: p.String()}, time.Now()
		for _, path := range tests[p.pkg] {
			if !binaries[path].reached[p.number] {
				continue
			}
			r.Reached = true
			if r.Why = binaries[path].notices(ctx, p.number); r.Why != "" {
				r.By = strings.TrimPrefix(path, module+"/")
				break
			}
		}
		if ctx.Err() != nil {
			return // an interrupted run proves nothing
		}
		r.Seconds = time.Since(since).Seconds()
		mu.Lock()
		defer mu.Unlock()
		tried++
		err = errors.Join(err, log.add(&r))
		at := progress(tried, len(drawn), begun)
		switch {
		case r.By != "":
			fmt.Fprintf(d.out, "%s noticed  %s\n         %s: %.150s\n", at, p, r.By, r.Why)
			return
		case r.Reached:
			fmt.Fprintf(d.out, "%s SURVIVED %s\n", at, p)
		default:
			fmt.Fprintf(d.out, "%s SURVIVED %s\n         no test comes by\n", at, p)
		}
		survived = append(survived, p)
	})
	slices.SortFunc(survived, func(a, b *point) int { return a.number - b.number })
	return survived, tried, errors.Join(ctx.Err(), err)
}

// progress returns how much is done, how long it took and how long the rest will take at this rate.
func progress(done, all int, begun time.Time) string {
	took := time.Since(begun)
	left := took / time.Duration(done) * time.Duration(all-done)
	return fmt.Sprintf("%d/%d %s, %s to go:", done, all, took.Round(time.Second), left.Round(time.Second))
}
