package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"godwit.dev/godwit/tools/mutate/mutant"
)

const (
	module        = "godwit.dev/godwit"
	switchPackage = module + "/tools/mutate/mutant"
	survivorsFile = "tools/mutate/survivors.txt"
	// mostSurvivors is how many of a hundred mutants that are not equivalent may survive.
	mostSurvivors = 10
	// nearest is how many packages that use the mutant's own have their tests run besides.
	nearest = 2
)

// spared are packages that only tests are built from: what breaks in them breaks tests, not the server.
var spared = regexp.MustCompile(`/(archtest|gatetest|storetest|sendertest|certstest|faultvfs|sdk)(/|$)`)

// drawing is what a run is asked for.
type drawing struct {
	patterns  []string // of packages, as go list takes them
	count     int
	seed      uint64
	jobs      int
	survivors string // file
	out       io.Writer
}

// goPackage is what go list says of a package.
type goPackage struct {
	Dir, ImportPath                          string
	GoFiles, TestGoFiles, XTestGoFiles       []string
	Imports, TestImports, XTestImports, Deps []string
}

func (p *goPackage) tested() bool { return len(p.TestGoFiles)+len(p.XTestGoFiles) > 0 }

func (p *goPackage) uses(other string) bool {
	return slices.Contains(p.Imports, other) || slices.Contains(p.TestImports, other) || slices.Contains(p.XTestImports, other)
}

// suiteBinary is a package's compiled tests.
type suiteBinary struct {
	path, dir string
	took      time.Duration // without a mutant
}

// draw breaks the code in places that chance chooses and reports what no test notices. It fails if there is something
// that survivors.txt does not judge, or too much that it excuses.
func (d *drawing) draw(ctx context.Context) error {
	packages, err := list(ctx, d.patterns)
	if err != nil {
		return err
	}
	points, err := allPoints(packages)
	if err != nil {
		return err
	}
	drawn := pick(points, d.count, d.seed)
	fmt.Fprintf(d.out, "%d of %d places, seed %d\n", len(drawn), len(points), d.seed)
	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	tests := testsOf(packages, drawn)
	binaries, drawn, err := compile(ctx, dir, packages, drawn, tests)
	if err != nil {
		return err
	}
	if err := d.baseline(ctx, binaries); err != nil {
		return err
	}
	survived, err := d.try(ctx, drawn, tests, binaries)
	if err != nil {
		return err
	}
	judged, err := readSurvivors(d.survivors)
	if err != nil {
		return err
	}
	return report(d.out, len(drawn), survived, judged)
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

// allPoints finds the places of all packages that are not there for tests, in order.
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

// pick draws n points, of each kind as many as there are, in turn.
func pick(points []*point, n int, seed uint64) (drawn []*point) {
	byKind := map[kind][]*point{}
	for _, p := range points {
		byKind[p.kind] = append(byKind[p.kind], p)
	}
	rnd := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // chance that can be had again
	for _, k := range kinds {
		rnd.Shuffle(len(byKind[k]), func(i, j int) { byKind[k][i], byKind[k][j] = byKind[k][j], byKind[k][i] })
	}
	for n = min(n, len(points)); len(drawn) < n; {
		for _, k := range kinds {
			if rest := byKind[k]; len(rest) > 0 && len(drawn) < n {
				drawn, byKind[k] = append(drawn, rest[0]), rest[1:]
			}
		}
	}
	for i, p := range drawn {
		p.number = i + 1
	}
	return drawn
}

// testsOf says whose tests may notice: those of the package and of those nearest to it that use it, the leanest first.
func testsOf(packages map[string]*goPackage, drawn []*point) map[string][]string {
	tests := map[string][]string{}
	for _, p := range drawn {
		if tests[p.pkg] != nil {
			continue
		}
		var users []string
		for path, u := range packages {
			if path != p.pkg && u.tested() && u.uses(p.pkg) && !spared.MatchString(path) {
				users = append(users, path)
			}
		}
		slices.SortFunc(users, func(a, b string) int {
			return cmp.Or(len(packages[a].Imports)-len(packages[b].Imports), strings.Compare(a, b))
		})
		own := []string{}
		if packages[p.pkg].tested() {
			own = append(own, p.pkg)
		}
		tests[p.pkg] = append(own, users[:min(nearest, len(users))]...)
		if _, whole := packages[module+"/internal/app"]; whole && !slices.Contains(tests[p.pkg], module+"/internal/app") && (p.kind == unfiltered || len(tests[p.pkg]) == 0) {
			tests[p.pkg] = append(tests[p.pkg], module+"/internal/app")
		}
	}
	return tests
}

// where is how the compiler names a place.
var where = regexp.MustCompile(`(?m)([\w./-]+\.go):(\d+):\d+: `)

// compile builds the tests with all mutants in them. What does not compile is left out.
func compile(ctx context.Context, dir string, packages map[string]*goPackage, drawn []*point, tests map[string][]string) (map[string]*suiteBinary, []*point, error) {
	binaries := map[string]*suiteBinary{}
	for _, list := range tests {
		for _, path := range list {
			binaries[path] = &suiteBinary{path: filepath.Join(dir, strings.ReplaceAll(path, "/", "_")+".test"), dir: packages[path].Dir}
		}
	}
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
				break // what it lacks is lacking for all
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

// writeOverlay writes the files with mutants in them, and what the go command is to be told of them.
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

// run runs compiled tests; number 0 is the code as it is.
func (b *suiteBinary) run(ctx context.Context, number int, limit time.Duration) (red bool, out string) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, b.path, "-test.short", "-test.failfast", "-test.timeout", limit.String())
	cmd.Dir, cmd.Env = b.dir, append(os.Environ(), mutant.Variable+"="+strconv.Itoa(number))
	cmd.WaitDelay = 5 * time.Second
	text, err := cmd.CombinedOutput()
	return err != nil, string(text)
}

// baseline sees that the tests are green without a mutant, and how long they take.
func (d *drawing) baseline(ctx context.Context, binaries map[string]*suiteBinary) error {
	for _, path := range slices.Sorted(maps.Keys(binaries)) {
		b, begun := binaries[path], time.Now()
		red, out := b.run(ctx, 0, patience)
		if red { // a machine that others use may fail a test once
			begun = time.Now()
			red, out = b.run(ctx, 0, patience)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if red {
			return fmt.Errorf("%s is red without a mutant:\n%s", path, tail(out))
		}
		b.took = time.Since(begun)
	}
	return nil
}

// try runs the tests of each mutant, until one is red.
func (d *drawing) try(ctx context.Context, drawn []*point, tests map[string][]string, binaries map[string]*suiteBinary) (survived []*point, err error) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	turn := make(chan *point)
	for range cmp.Or(d.jobs, runtime.GOMAXPROCS(0)) {
		wg.Go(func() {
			for p := range turn {
				by, why := "", ""
				for _, path := range tests[p.pkg] {
					b := binaries[path]
					if red, out := b.run(ctx, p.number, 20*time.Second+3*b.took); red {
						by, why = path, reason(out)
						break
					}
				}
				mu.Lock()
				if by == "" {
					survived = append(survived, p)
					fmt.Fprintf(d.out, "SURVIVED %s\n", p)
				} else {
					fmt.Fprintf(d.out, "noticed  %s\n         %s: %.150s\n", p, strings.TrimPrefix(by, module+"/"), why)
				}
				mu.Unlock()
			}
		})
	}
	for _, p := range drawn {
		if ctx.Err() != nil {
			break
		}
		turn <- p
	}
	close(turn)
	wg.Wait()
	slices.SortFunc(survived, func(a, b *point) int { return a.number - b.number })
	return survived, ctx.Err()
}
