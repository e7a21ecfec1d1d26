package archtest

import (
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"sort"
	"strings"
	"testing"
)

// maxLines is the most lines of a file: longer files have more than one subject.
const maxLines = 800

func TestFilesStayShort(t *testing.T) {
	for _, f := range tree(t) {
		if !f.generated && f.lines > maxLines {
			t.Errorf("%s has %d lines; at most %d: split it by meaning", f.path, f.lines, maxLines)
		}
	}
}

func TestEveryPackageSaysWhatItIsFor(t *testing.T) {
	documented := map[string]bool{}
	for _, f := range tree(t) {
		if f.isTest() || f.generated {
			continue
		}
		dir := f.dir()
		documented[dir] = documented[dir] || docOf(f) != ""
	}
	dirs := make([]string, 0, len(documented))
	for dir := range documented {
		dirs = append(dirs, dir)
	}
	sort.Strings(dirs)
	for _, dir := range dirs {
		if !documented[dir] {
			t.Errorf("%s has no package comment", dir)
		}
	}
}

// docOf returns f's package comment if it has the usual form: "Package name ..." or, for a program, "Command" or its name.
func docOf(f *source) string {
	doc := f.syntax.Doc.Text()
	name := f.syntax.Name.Name
	if name == "main" {
		return doc
	}
	if strings.HasPrefix(doc, "Package "+name+" ") {
		return doc
	}
	return ""
}

func TestNothingRunsBeforeMain(t *testing.T) {
	for _, f := range tree(t) {
		if f.generated {
			continue
		}
		for _, decl := range f.syntax.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
				t.Errorf("%s has an init function: make it explicit in app or main", f.path)
			}
		}
	}
}

func TestMetricsAreNotGlobal(t *testing.T) {
	for _, f := range tree(t) {
		if f.isTest() || f.generated {
			continue
		}
		for _, decl := range f.syntax.Decls {
			vars, ok := decl.(*ast.GenDecl)
			if !ok || vars.Tok != token.VAR {
				continue
			}
			ast.Inspect(vars, func(n ast.Node) bool {
				if _, inFunction := n.(*ast.FuncLit); inFunction {
					return false
				}
				if call, ok := n.(*ast.CallExpr); ok && makesMetric(call) {
					t.Errorf("%s makes a metric at package level: each server has its own registry", f.path)
				}
				return true
			})
		}
	}
}

func makesMetric(call *ast.CallExpr) bool {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	pkg, ok := sel.X.(*ast.Ident)
	return ok && (pkg.Name == "prometheus" && strings.HasPrefix(sel.Sel.Name, "New") && sel.Sel.Name != "NewDesc" ||
		pkg.Name == "promauto")
}

// promise matches words that postpone work. A missing feature must be refused with a clear error, and the docs must name it as missing.
var promise = regexp.MustCompile(`\b(` + strings.Join([]string{"TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK"}, "|") + `)\b`)

func TestNoWorkIsPutOff(t *testing.T) {
	for _, f := range tree(t) {
		if f.isTest() || f.generated {
			continue
		}
		if !promise.MatchString(f.text) {
			continue
		}
		for i, line := range strings.Split(f.text, "\n") {
			if word := promise.FindString(line); word != "" {
				t.Errorf("%s:%d says %s: finish it, or refuse clearly", f.path, i+1, word)
			}
		}
	}
}

func TestOnlyMainExits(t *testing.T) {
	for _, f := range tree(t) {
		if f.isTest() || f.generated || f.syntax.Name.Name == "main" || strings.HasPrefix(f.path, "test/") {
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			sel, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if pkg, ok := sel.X.(*ast.Ident); ok && (pkg.Name == "log" && strings.HasPrefix(sel.Sel.Name, "Fatal") ||
				pkg.Name == "os" && sel.Sel.Name == "Exit" && !exitAllowed[f.path]) {
				t.Errorf("%s: %s.%s ends the process; return an error instead", f.fset.Position(call.Pos()), pkg.Name, sel.Sel.Name)
			}
			return true
		})
	}
}

// exitAllowed lists files that may end the process, each with its reason.
var exitAllowed = map[string]bool{}

func TestTestsDoNotSleep(t *testing.T) {
	files := tree(t)
	fakeClock := map[string]bool{} // packages that use synctest, in which a sleep takes no time
	for _, f := range files {
		fakeClock[f.dir()] = fakeClock[f.dir()] || usesSynctest(f)
	}
	for _, f := range files {
		if !f.isTest() && !strings.HasPrefix(f.path, "test/") || fakeClock[f.dir()] {
			continue
		}
		if strings.HasSuffix(f.path, "bench_test.go") {
			continue // a benchmark may pace its load
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			if _, loop := n.(*ast.ForStmt); loop {
				return false // a condition polled with pauses
			}
			if sel, ok := n.(*ast.SelectorExpr); ok && sel.Sel.Name == "Sleep" {
				if pkg, ok := sel.X.(*ast.Ident); ok && pkg.Name == "time" {
					t.Errorf("%s sleeps: wait for the event, or use testing/synctest", f.fset.Position(sel.Pos()))
				}
			}
			return true
		})
	}
}

func usesSynctest(f *source) bool {
	for _, p := range f.imports() {
		if path.Base(p) == "synctest" {
			return true
		}
	}
	return false
}
