package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// where matches a place in the compiler's messages.
var where = regexp.MustCompile(`(?m)([\w./-]+\.go):(\d+):\d+: `)

// compile builds the tests with all mutants in them. Mutants that do not compile are left out.
func (d *drawing) compile(ctx context.Context, dir string, packages map[string]*goPackage, drawn []*point, tests map[string][]string) (map[string]*suiteBinary, []*point, error) {
	binaries := map[string]*suiteBinary{}
	for _, list := range tests {
		for _, path := range list {
			binaries[path] = &suiteBinary{path: filepath.Join(dir, strings.ReplaceAll(path, "/", "_")+".test"), dir: packages[path].Dir}
		}
	}
	fmt.Fprintf(d.out, "compiling %d packages' tests\n", len(binaries))
	for range 10 {
		overlay, err := writeOverlay(dir, packages, drawn)
		if err != nil {
			return nil, nil, err
		}
		var failures strings.Builder
		for _, path := range slices.Sorted(maps.Keys(binaries)) {
			out, err := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", binaries[path].path, path).CombinedOutput()
			if ctx.Err() != nil {
				return nil, nil, ctx.Err()
			}
			if err != nil {
				failures.Write(out)
				break // a mutant that is missing here is missing everywhere
			}
		}
		if failures.Len() == 0 {
			return binaries, drawn, nil
		}
		fewer := slices.DeleteFunc(slices.Clone(drawn), func(p *point) bool {
			for _, m := range where.FindAllStringSubmatch(failures.String(), -1) {
				if strings.HasSuffix(p.file, filepath.Base(m[1])) && strconv.Itoa(p.line(packages)) == m[2] {
					return true
				}
			}
			return false
		})
		if len(fewer) == len(drawn) {
			return nil, nil, fmt.Errorf("mutants do not compile: %s", failures.String())
		}
		drawn = fewer
	}
	return nil, nil, errors.New("mutants do not compile")
}

// source is a point's file.
func (p *point) source(packages map[string]*goPackage) string {
	return filepath.Join(packages[p.pkg].Dir, filepath.Base(p.file))
}

func (p *point) line(packages map[string]*goPackage) int {
	src, _ := os.ReadFile(p.source(packages))
	return 1 + strings.Count(string(src[:p.from]), "\n")
}

// writeOverlay writes the files with mutants in them, and the overlay file that makes the go command use them.
func writeOverlay(dir string, packages map[string]*goPackage, drawn []*point) (string, error) {
	byFile := map[string][]*point{}
	for _, p := range drawn {
		f := p.source(packages)
		byFile[f] = append(byFile[f], p)
	}
	replace := map[string]string{}
	for file, points := range byFile {
		src, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		out, err := rewrite(src, points)
		if err != nil {
			return "", err
		}
		replace[file] = filepath.Join(dir, fmt.Sprint(points[0].number, "-", filepath.Base(file)))
		if err := os.WriteFile(replace[file], out, 0o600); err != nil {
			return "", err
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, text, 0o600)
}
