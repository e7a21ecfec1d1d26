// Command mutate breaks the server on purpose and checks that the tests notice. A mutation that survives is a promise that no
// test checks. First come mutations written by hand, one small patch at a time, each with the tests that must notice; then
// mutants drawn by chance, all compiled at once behind a switch. Run it by hand (make mutate); it takes a while.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// mutation is one way to break the code: in a file, an old text becomes a new one.
type mutation struct {
	name     string
	file     string
	old, new string
	tests    []suite // each of them must fail
}

// suite is a package and the tests in it to run.
type suite struct{ pkg, run string }

// resultsFolder holds the results of a seed's mutants, a line of JSON for each.
const resultsFolder = ".bin/mutate"

// patience limits one run of tests.
const patience = 10 * time.Minute

func main() {
	only := flag.String("only", "", "try only mutations whose name this regular expression matches; a drawn one's begins with its file")
	list := flag.Bool("list", false, "list the mutations by hand")
	hand := flag.Bool("hand", true, "try the mutations by hand")
	d := drawing{survivors: survivorsFile, out: os.Stdout}
	flag.IntVar(&d.count, "draw", 200, "how many mutants to draw; 0: none")
	flag.Uint64Var(&d.seed, "seed", 1, "draws the same again")
	flag.IntVar(&d.jobs, "jobs", 0, "tests that run at once; 0: as many as there are processors")
	flag.BoolVar(&d.resume, "resume", false, "keep what the last run of this seed noticed and try the rest: after an interrupt, or after tests were written")
	flag.Parse()
	if d.patterns = flag.Args(); len(d.patterns) == 0 {
		d.patterns = []string{"./internal/..."}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	which, err := regexp.Compile(*only)
	if err == nil && *hand {
		err = run(ctx, which, *list)
	}
	if *only != "" {
		d.only = which
	} else {
		d.results = filepath.Join(resultsFolder, fmt.Sprintf("seed-%d.jsonl", d.seed))
	}
	if d.count > 0 && !*list {
		err = errors.Join(err, d.draw(ctx))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, only *regexp.Regexp, list bool) error {
	var survived []string
	green := map[suite]bool{}
	for _, m := range slices.Concat(mutations, ofObjects, ofRights, ofNodes, ofFCM, ofAPNs, ofPreferences, ofSteps, ofTokens) {
		if !only.MatchString(m.name) {
			continue
		}
		if list {
			fmt.Printf("%-40s %s\n", m.name, m.file)
			continue
		}
		killed, err := m.try(ctx, green)
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		if !killed {
			survived = append(survived, m.name)
		}
	}
	if len(survived) > 0 {
		return fmt.Errorf("the tests did not notice: %s", strings.Join(survived, "; "))
	}
	return nil
}

// try runs the mutation's tests on the unchanged code, where they must pass, and on the broken code, where they must fail. green records
// the suites that passed on the unchanged code.
func (m *mutation) try(ctx context.Context, green map[suite]bool) (killed bool, err error) {
	overlay, err := m.overlay()
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(filepath.Dir(overlay))
	env := append(os.Environ(), "GOFLAGS=-overlay="+overlay)
	killed = true
	for _, s := range m.tests {
		args := []string{"test", "-count=1", "-timeout=4m", "-run", s.run, s.pkg}
		if !green[s] {
			if out, err := command(ctx, os.Environ(), args...); err != nil {
				return false, fmt.Errorf("%s is red without the mutation: %w\n%s", s.pkg, err, tail(out))
			} else if strings.Contains(out, "no tests to run") {
				return false, fmt.Errorf("%s has no test %s", s.pkg, s.run)
			}
			green[s] = true
		}
		began := time.Now()
		out, err := command(ctx, env, args...)
		switch {
		case ctx.Err() != nil:
			return false, ctx.Err()
		case strings.Contains(out, "[build failed]"):
			return false, fmt.Errorf("the mutation does not compile: %w\n%s", err, out)
		case err != nil:
			fmt.Printf("noticed   %-40s %s (%.0f s)\n          %s\n", m.name, s.pkg, time.Since(began).Seconds(), reason(out))
		default:
			fmt.Printf("SURVIVED  %-40s %s (%.0f s)\n", m.name, s.pkg, time.Since(began).Seconds())
			killed = false
		}
	}
	return killed, nil
}

// overlay writes the changed file beside the tree and returns a description of it for the go command.
func (m *mutation) overlay() (string, error) {
	file, err := filepath.Abs(m.file)
	if err != nil {
		return "", err
	}
	text, err := m.find(file)
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return "", err
	}
	changed := filepath.Join(dir, filepath.Base(file))
	description, err := json.Marshal(map[string]any{"Replace": map[string]string{file: changed}})
	if err == nil {
		err = errors.Join(
			os.WriteFile(changed, []byte(strings.Replace(string(text), m.old, m.new, 1)), 0o600),
			os.WriteFile(filepath.Join(dir, "overlay.json"), description, 0o600),
		)
	}
	return filepath.Join(dir, "overlay.json"), err
}

// find reads the file and checks that the text to change occurs exactly once.
func (m *mutation) find(file string) (text []byte, err error) {
	if text, err = os.ReadFile(file); err != nil {
		return nil, err
	}
	if n := strings.Count(string(text), m.old); n != 1 {
		return nil, fmt.Errorf("the text to replace is %d times in %s, not once: the code has moved on, and so must the mutation", n, m.file)
	}
	return text, nil
}

func command(ctx context.Context, env []string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Env = env
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// reason returns the first line in which a test reports why it failed.
func reason(out string) string {
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		if strings.Contains(line, "_test.go:") || strings.Contains(line, "storetest/") || strings.HasPrefix(line, "panic:") {
			return line
		}
	}
	return strings.Join(strings.Fields(tail(out)), " ")
}

func tail(out string) string { return out[max(0, len(out)-1500):] }
