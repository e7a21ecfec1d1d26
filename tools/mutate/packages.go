package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// goPackage has the used parts of go list's output.
type goPackage struct {
	Dir, ImportPath                          string
	GoFiles, TestGoFiles, XTestGoFiles       []string
	Imports, TestImports, XTestImports, Deps []string
}

func (p *goPackage) tested() bool { return len(p.TestGoFiles)+len(p.XTestGoFiles) > 0 }

func (p *goPackage) uses(other string) bool {
	return slices.Contains(p.Imports, other) || slices.Contains(p.TestImports, other) || slices.Contains(p.XTestImports, other)
}

func list(ctx context.Context, patterns []string) (map[string]*goPackage, error) {
	out, err := exec.CommandContext(ctx, "go", append([]string{"list", "-json=Dir,ImportPath,GoFiles,TestGoFiles,XTestGoFiles,Imports,TestImports,XTestImports"}, patterns...)...).Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	packages := map[string]*goPackage{}
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		p := &goPackage{}
		switch err := dec.Decode(p); {
		case errors.Is(err, io.EOF):
			return packages, nil
		case err != nil:
			return nil, err
		}
		packages[p.ImportPath] = p
	}
}

// allPoints returns the points of all packages that are not only for tests, in order.
func allPoints(packages map[string]*goPackage) (all []*point, err error) {
	for _, path := range slices.Sorted(maps.Keys(packages)) {
		if spared.MatchString(path) {
			continue
		}
		p := packages[path]
		for _, f := range p.GoFiles {
			if strings.HasSuffix(f, ".pb.go") {
				continue
			}
			src, err := os.ReadFile(filepath.Join(p.Dir, f))
			if err != nil {
				return nil, err
			}
			found, err := find(strings.TrimPrefix(path, module+"/")+"/"+f, path, src)
			if err != nil {
				return nil, err
			}
			all = append(all, found...)
		}
	}
	return all, nil
}
