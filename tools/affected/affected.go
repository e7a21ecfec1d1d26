package main

import (
	"path"
	"sort"
	"strings"
)

const module = "godwit.dev/godwit"

// pkg is a package of this module.
type pkg struct {
	name string
	dir  string          // from the root, with slashes
	uses map[string]bool // packages from which it and its tests are built
}

// unseen are dependencies without an import: a package runs a program built from another one, or reads its files.
var unseen = map[string][]string{
	module + "/test/blackbox":    {module + "/cmd/godwit"},
	module + "/examples/workers": {module + "/examples/workers/orders"},
}

// readers are the tests that read files outside their folder.
var readers = []struct{ prefix, pkg string }{
	{"api/vectors/", module + "/internal/notify/frame"},
	{"api/vectors/", module + "/clients/go"},
	{"api/vectors/", module + "/internal/objects/object"},
	{"clients/js/", module + "/test/webpage"},
	{"clients/python/", module + "/examples/observatory"},
	{"docs/migrate/", module + "/examples/observatory"},
	{"test/foreign/", module + "/examples/workers"},
	{"docs/dependencies.md", module + "/internal/testkit/archtest"},
}

// everything lists files on which every package depends.
var everything = map[string]bool{"go.mod": true, "go.sum": true}

// always lists cheap tests of the whole tree, which always run.
var always = []string{module + "/internal/testkit/archtest"}

// affected returns the names, in order, of the packages that a change of files can break.
func affected(packages []pkg, files []string) []string {
	if len(files) == 0 {
		return nil
	}
	names, byDir := map[string]bool{}, map[string]string{}
	for _, p := range packages {
		names[p.name], byDir[p.dir] = true, p.name
	}
	hit := map[string]bool{}
	for _, name := range always {
		hit[name] = names[name]
	}
	for _, f := range files {
		if everything[f] {
			return sorted(names)
		}
		if strings.HasSuffix(f, ".md") {
			hit[module+"/test/foreign"] = names[module+"/test/foreign"]
		}
		for _, r := range readers {
			if strings.HasPrefix(f, r.prefix) {
				hit[r.pkg] = names[r.pkg]
			}
		}
		if p := owner(byDir, f); p != "" {
			hit[p] = true
			users(packages, p, strings.HasSuffix(f, "_test.go"), hit)
		}
	}
	return sorted(hit)
}

// owner returns the package in whose folder a file is, or below whose folder: testdata, embedded pages.
func owner(byDir map[string]string, file string) string {
	for dir := path.Dir(file); dir != "."; dir = path.Dir(dir) {
		if p := byDir[dir]; p != "" {
			return p
		}
	}
	return ""
}

// users marks the packages built from a package, and those that run a program built from it.
func users(packages []pkg, changed string, testOnly bool, hit map[string]bool) {
	if testOnly {
		return // no other package is built from a package's tests
	}
	for _, p := range packages {
		if p.uses[changed] {
			hit[p.name] = true
		}
	}
	for runner, programs := range unseen {
		for _, program := range programs {
			if !hit[program] {
				continue
			}
			hit[runner] = true
			for _, p := range packages {
				if p.uses[runner] {
					hit[p.name] = true
				}
			}
		}
	}
}

func sorted(set map[string]bool) []string {
	var names []string
	for name, in := range set {
		if in {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	return names
}
