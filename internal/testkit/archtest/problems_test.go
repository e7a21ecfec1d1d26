package archtest

import (
	"go/ast"
	"go/token"
	"strconv"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/server/problem"
)

// TestProblemsComeFromTheRegistry checks that every problem in an answer to clients has a type of package problem, so that it has a title
// and a page.
func TestProblemsComeFromTheRegistry(t *testing.T) {
	slugs := map[string]bool{}
	for _, is := range problem.Types() {
		slugs[is.Slug()] = strings.Contains(is.Slug(), "-") // a slug of one word is common, and other texts may contain it
	}
	for _, f := range tree(t) {
		if f.isTest() || f.generated || f.dir() == "internal/server/problem" || !strings.HasPrefix(f.path, "internal/") && !strings.HasPrefix(f.path, "cmd/") {
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BasicLit:
				text, err := strconv.Unquote(n.Value)
				if n.Kind != token.STRING || err != nil {
					return true
				}
				if slugs[text] || strings.Contains(text, "/problems/") && text != "GET /problems/{slug}" {
					t.Errorf("%s spells a problem's type, %s: use the one in package problem", f.fset.Position(n.Pos()), n.Value)
				}
			case *ast.CompositeLit:
				if of, ok := n.Type.(*ast.SelectorExpr); ok && isPackage(of.X, "problem") {
					t.Errorf("%s makes a problem of its own: a type of package problem makes it", f.fset.Position(n.Pos()))
				}
			}
			return true
		})
	}
}

func isPackage(e ast.Expr, name string) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == name
}
