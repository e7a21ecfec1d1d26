package archtest

import (
	"fmt"
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// step is a line of a walk in docs/architecture.md: a function by its package, receiver and name.
var step = regexp.MustCompile("^[0-9]+\\. (start: )?`([a-z0-9/]+)\\.(?:([A-Za-z]+)\\.)?([A-Za-z]+)`")

// TestTheWalksOfTheArchitecturePageAreTrue checks each walk by its names: every function exists, and an earlier function of the same walk
// calls it or passes it on as a value. Where a walk continues elsewhere, through a queue or another goroutine, it starts anew.
func TestTheWalksOfTheArchitecturePageAreTrue(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	functions := functionsOf(tree(t))
	var called map[string]bool // names called by the functions of this walk so far
	steps := 0
	for i, line := range strings.Split(string(page), "\n") {
		m := step.FindStringSubmatch(line)
		if m == nil {
			if !strings.HasPrefix(strings.TrimSpace(line), "1") {
				called = nil
			}
			continue
		}
		steps++
		name := fmt.Sprintf("%s.%s.%s", m[2], m[3], m[4])
		f := functions[name]
		if f == nil {
			t.Errorf("line %d: there is no function %s, or there are two", i+1, name)
			continue
		}
		if called != nil && m[1] == "" && !called[m[4]] {
			t.Errorf("line %d: %s is called by none of the functions before it", i+1, name)
		}
		if called == nil {
			called = map[string]bool{}
		}
		for n := range namesIn(f) {
			called[n] = true
		}
	}
	if steps < 40 {
		t.Errorf("the page names only %d functions", steps)
	}
}

// functionsOf maps "folder.receiver.name" to the tree's functions, where folder is the end of the package's path, of any length. The value
// is nil if two functions have one name.
func functionsOf(files []*source) map[string]*ast.FuncDecl {
	all := make(map[string]*ast.FuncDecl)
	for _, f := range files {
		if f.isTest() || f.generated {
			continue
		}
		for _, d := range f.syntax.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				for folder, more := f.dir(), true; more; _, folder, more = strings.Cut(folder, "/") {
					name := folder + "." + receiver(fn) + "." + fn.Name.Name
					if _, twice := all[name]; twice {
						all[name] = nil
					} else {
						all[name] = fn
					}
				}
			}
		}
	}
	return all
}

func receiver(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return ""
	}
	x := fn.Recv.List[0].Type
	if star, ok := x.(*ast.StarExpr); ok {
		x = star.X
	}
	if generic, ok := x.(*ast.IndexExpr); ok {
		x = generic.X
	}
	if id, ok := x.(*ast.Ident); ok {
		return id.Name
	}
	return ""
}

// namesIn returns the names in a function's body: those it calls, and those it passes on.
func namesIn(fn *ast.FuncDecl) map[string]bool {
	names := map[string]bool{}
	ast.Inspect(fn, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && id != fn.Name {
			names[id.Name] = true
		}
		return true
	})
	return names
}
