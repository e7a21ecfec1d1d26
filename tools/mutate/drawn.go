package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"godwit.dev/godwit/tools/mutate/mutant"
)

const (
	module        = "godwit.dev/godwit"
	switchPackage = module + "/tools/mutate/mutant"
	survivorsFile = "tools/mutate/survivors.txt"
	// mostSurvivors is how many of 100 mutants that are not equivalent may survive.
	mostSurvivors = 10
	// nearest is how many packages that use a mutant's package also run their tests.
	nearest = 2
)

// spared are packages from which only tests are built: faults in them break tests, not the server.
var spared = regexp.MustCompile(`/(archtest|gatetest|storetest|sendertest|certstest|faultvfs|sdk)(/|$)`)

// drawing holds the options of a run.
type drawing struct {
	patterns  []string       // patterns of packages, as for go list
	only      *regexp.Regexp // names of mutants to draw from; nil: all
	count     int
	seed      uint64
	jobs      int
	survivors string // file
	results   string // file; empty: none
	resume    bool
	out       io.Writer
}

// draw breaks the code at random places and reports the mutants that no test notices. It fails if survivors.txt does not judge one of them,
// or excuses too many.
func (d *drawing) draw(ctx context.Context) error {
	begun := time.Now()
	judged, err := readSurvivors(d.survivors)
	if err != nil {
		return err
	}
	packages, err := list(ctx, d.patterns)
	if err != nil {
		return err
	}
	points, err := allPoints(packages)
	if err != nil {
		return err
	}
	if d.only != nil {
		points = slices.DeleteFunc(points, func(p *point) bool { return !d.only.MatchString(p.String()) })
	}
	drawn := pick(points, d.count, d.seed)
	fmt.Fprintf(d.out, "%d of %d places, seed %d\n", len(drawn), len(points), d.seed)
	log, noticed, err := d.openResults()
	if err != nil {
		return err
	}
	defer log.close()
	drawn, before := without(drawn, noticed)
	if before > 0 {
		fmt.Fprintf(d.out, "%d of them were noticed before\n", before)
	}
	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o711); err != nil { // tests start PostgreSQL as another user, with its files in there
		return err
	}
	tests := testsOf(packages, drawn)
	binaries, drawn, err := d.compile(ctx, dir, packages, drawn, tests)
	if err != nil {
		return err
	}
	if err := d.baseline(ctx, dir, binaries); err != nil {
		return err
	}
	survived, tried, err := d.try(ctx, drawn, tests, binaries, log)
	for _, b := range binaries {
		if b.skip != "" {
			fmt.Fprintf(d.out, "left out, red without a mutant: %s of %s\n", b.skip, b.dir)
		}
	}
	if err != nil {
		fmt.Fprintf(d.out, "%d of %d tried, %d survived; with -resume the next run of this seed goes on from here\n", before+tried, before+len(drawn), len(survived))
		return err
	}
	fmt.Fprintf(d.out, "it took %s\n", time.Since(begun).Round(time.Second))
	return report(d.out, before+len(drawn), survived, judged)
}

// without removes the points whose mutants were noticed, and returns how many it removed.
func without(drawn []*point, noticed map[string]bool) (rest []*point, left int) {
	rest = slices.DeleteFunc(slices.Clone(drawn), func(p *point) bool { return noticed[p.String()] })
	return rest, len(drawn) - len(rest)
}

// pick draws n points, taking the kinds in turn. Each point's chance is a hash of its own, so that a change of the code does not change the
// rest of a draw.
func pick(points []*point, n int, seed uint64) (drawn []*point) {
	byKind, chance := map[kind][]*point{}, map[*point][sha256.Size]byte{}
	for _, p := range points {
		byKind[p.kind] = append(byKind[p.kind], p)
		chance[p] = sha256.Sum256(fmt.Appendf(nil, "%d %s", seed, p))
	}
	for _, k := range kinds {
		slices.SortFunc(byKind[k], func(a, b *point) int {
			ca, cb := chance[a], chance[b]
			return slices.Compare(ca[:], cb[:])
		})
	}
	for n = min(n, len(points), mutant.Most); len(drawn) < n; {
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

// testsOf returns the packages whose tests may notice a mutant: its own package and the nearest packages that use it, fewest dependencies
// first.
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
		if _, whole := packages[module+"/internal/server/app"]; whole && !slices.Contains(tests[p.pkg], module+"/internal/server/app") && (p.kind == unfiltered || len(tests[p.pkg]) == 0) {
			tests[p.pkg] = append(tests[p.pkg], module+"/internal/server/app")
		}
	}
	return tests
}
