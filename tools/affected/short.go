package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
)

// skipsAll reports whether a folder has test files, and nothing in them runs under -short: to link them would be for nothing.
func skipsAll(dir string) (bool, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		return false, err
	}
	set := token.NewFileSet()
	for _, name := range files {
		file, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
		if err != nil {
			return false, fmt.Errorf("look for tests: %w", err)
		}
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && runs(f) && !long(f) {
				return false, nil
			}
		}
	}
	return len(files) > 0, nil
}

// runs reports whether go test calls a function. Benchmarks it calls only when asked.
func runs(f *ast.FuncDecl) bool {
	name := f.Name.Name
	if f.Recv != nil || name == "TestMain" {
		return false
	}
	return strings.HasPrefix(name, "Test") || strings.HasPrefix(name, "Example") || strings.HasPrefix(name, "Fuzz")
}

// long reports whether the first that a test does is to skip itself under -short: blackbox.Long(t), or if testing.Short() {}.
func long(f *ast.FuncDecl) bool {
	if f.Body == nil || len(f.Body.List) == 0 {
		return false
	}
	var first ast.Expr
	switch stmt := f.Body.List[0].(type) {
	case *ast.ExprStmt:
		first = stmt.X
	case *ast.IfStmt:
		first = stmt.Cond
	}
	call, ok := first.(*ast.CallExpr)
	if !ok {
		return false
	}
	callee, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	pkg, ok := callee.X.(*ast.Ident)
	if !ok {
		return false
	}
	name := pkg.Name + "." + callee.Sel.Name
	return name == "blackbox.Long" || name == "testing.Short" && skips(f.Body.List[0])
}

// skips reports whether the body of an if calls Skip: others make a test shorter.
func skips(stmt ast.Stmt) (found bool) {
	ast.Inspect(stmt, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok && strings.HasPrefix(s.Sel.Name, "Skip") {
			found = true
		}
		return !found
	})
	return found
}
