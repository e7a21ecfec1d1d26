// Command affected lists the packages whose tests a change can fail: changed packages, and all packages built from them, or with -near
// those that import them. It reads the work tree, including untracked files, and compares it with the commit at which the branch left the
// main branch.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

func main() {
	since := flag.String("since", "", "the commit to compare with (where this branch left main)")
	short := flag.Bool("short", false, "leave out packages all of whose tests -short skips")
	near := flag.Bool("near", false, "leave out packages that do not import a changed one themselves")
	flag.Parse()
	if err := run(*since, *short, *near); err != nil {
		fmt.Fprintln(os.Stderr, "affected:", err)
		os.Exit(1)
	}
}

func run(since string, short, near bool) error {
	root, err := output("git", "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	if err := os.Chdir(strings.TrimSpace(root)); err != nil {
		return err
	}
	if since == "" {
		since = base()
	}
	files, err := changed(since)
	if err != nil {
		return err
	}
	packages, err := list(near)
	if err != nil {
		return err
	}
	dirs := map[string]string{}
	for _, p := range packages {
		dirs[p.name] = p.dir
	}
	for _, name := range affected(packages, files) {
		if short {
			skips, err := skipsAll(dirs[name])
			if err != nil {
				return err
			}
			if skips {
				continue
			}
		}
		fmt.Println(name)
	}
	return nil
}

// base returns the commit at which this branch left main; on main itself, and without a main, the last commit.
func base() string {
	for _, main := range []string{"main", "origin/main"} {
		if commit, err := output("git", "merge-base", "HEAD", main); err == nil {
			return strings.TrimSpace(commit)
		}
	}
	return "HEAD"
}

// changed lists the files that differ from a commit, including untracked ones. Paths are relative to the root.
func changed(since string) ([]string, error) {
	differ, err := output("git", "diff", "--name-only", "--no-renames", "-z", since, "--")
	if err != nil {
		return nil, err
	}
	unknown, err := output("git", "ls-files", "--others", "--exclude-standard", "-z")
	if err != nil {
		return nil, err
	}
	return strings.FieldsFunc(differ+unknown, func(r rune) bool { return r == 0 }), nil
}

// list lists the packages of this module with the packages from which their tests are built, or with near only those that they import.
func list(near bool) ([]pkg, error) {
	root, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	// go list reports a test as a package of its own: "p [p.test]" is p with its tests, p.test the program.
	uses := ".Deps"
	if near {
		uses = ".Imports"
	}
	text, err := output("go", "list", "-e", "-test", "-f", "{{.ImportPath}}\t{{.ForTest}}\t{{.Dir}}\t{{join "+uses+" \" \"}}", "./...")
	if err != nil {
		return nil, err
	}
	byName := map[string]*pkg{}
	var names []string
	for line := range strings.Lines(text) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		name, dir, deps := fields[0], fields[2], fields[3]
		if fields[1] != "" {
			name = fields[1]
		}
		name, ofTest := strings.CutSuffix(name, ".test")
		p := byName[name]
		if p == nil {
			p = &pkg{name: name, uses: map[string]bool{}}
			byName[name] = p
			names = append(names, name)
		}
		if !ofTest {
			rel, err := filepath.Rel(root, dir)
			if err != nil {
				return nil, err
			}
			p.dir = filepath.ToSlash(rel)
		}
		for dep := range strings.FieldsSeq(deps) {
			if !strings.HasPrefix(dep, "[") { // "p [q.test]" is p built for the tests of q
				p.uses[dep] = true
			}
		}
	}
	packages := make([]pkg, len(names))
	for i, name := range names {
		packages[i] = *byName[name]
	}
	return packages, nil
}

func output(name string, args ...string) (string, error) {
	out, err := exec.Command(name, args...).Output() //nolint:noctx // a short-lived tool
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, exit.Stderr)
	}
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return string(out), nil
}
