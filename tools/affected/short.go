package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
)

// skipsAll reports whether a folder has test files and none of their tests runs under -short, so that linking them is useless.
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

// runs reports whether go test calls a function. It calls benchmarks only with -bench.
func runs(f *ast.FuncDecl) bool {
	name := f.Name.Name
	if f.Recv != nil || name == "TestMain" {
		return false
	}
	return strings.HasPrefix(name, "Test") || strings.HasPrefix(name, "Example") || strings.HasPrefix(name, "Fuzz")
}

// long reports whether a test's first statement, apart from t.Parallel(), skips it under -short: blackbox.Long(t), or if testing.Short()
// {}.
func long(f *ast.FuncDecl) bool {
	if f.Body == nil {
		return false
	}
	stmts := f.Body.List
	if len(stmts) > 0 && called(stmts[0]) == "t.Parallel" {
		stmts = stmts[1:]
	}
	if len(stmts) == 0 {
		return false
	}
	name := called(stmts[0])
	return name == "blackbox.Long" || name == "testing.Short" && skips(stmts[0])
}

// called returns the name of the function or method that a statement, or the condition of an if, calls.
func called(stmt ast.Stmt) string {
	var first ast.Expr
	switch stmt := stmt.(type) {
	case *ast.ExprStmt:
		first = stmt.X
	case *ast.IfStmt:
		first = stmt.Cond
	}
	call, ok := first.(*ast.CallExpr)
	if !ok {
		return ""
	}
	callee, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	of, ok := callee.X.(*ast.Ident)
	if !ok {
		return ""
	}
	return of.Name + "." + callee.Sel.Name
}

// skips reports whether the body of an if calls Skip: other bodies only shorten a test.
func skips(stmt ast.Stmt) (found bool) {
	ast.Inspect(stmt, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok && strings.HasPrefix(s.Sel.Name, "Skip") {
			found = true
		}
		return !found
	})
	return found
}
