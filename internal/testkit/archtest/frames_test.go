package archtest

import (
	"go/ast"
	"strings"
	"testing"
)

// passesFramesOn are the functions to which a gateway may pass an encoded frame's bytes: they measure, copy or forward them.
var passesFramesOn = map[string]bool{
	"append": true, "len": true, "bytes.Clone": true, "frame.AppendAnswer": true, "Write": true, "WriteMessage": true,
	"mem.SliceBuffer": true,
	"unpack":          true, // of mqttgate, which reads a form of its own that its own codec has made
}

// A session passes the kind of each frame it writes, so no gateway needs to parse frames: parsing would be needed again
// for each wire format, and would be wrong for one.
func TestGatewaysParseNoServerFrame(t *testing.T) {
	seen := 0
	for _, f := range tree(t) {
		if f.isTest() || !strings.HasPrefix(f.dir(), "internal/gateway") || strings.HasPrefix(f.dir(), "internal/gateway/gatetest") {
			continue
		}
		for _, d := range f.syntax.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
				seen += checkFrames(t, f, fn)
			}
		}
	}
	if seen < 10 {
		t.Errorf("found only %d places where gateways handle frames: are heads and tails called otherwise now?", seen)
	}
}

// checkFrames checks every use of a frame's bytes in a function: its parameters head and tail, and the fields with these names in queued
// items.
func checkFrames(t *testing.T, f *source, fn *ast.FuncDecl) (uses int) {
	params := map[string]bool{}
	for _, p := range fn.Type.Params.List {
		for _, n := range p.Names {
			params[n.Name] = true
		}
	}
	isFrame := func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			return params[n.Name] && (n.Name == "head" || n.Name == "tail")
		case *ast.SelectorExpr:
			return strings.EqualFold(n.Sel.Name, "head") || strings.EqualFold(n.Sel.Name, "tail")
		}
		return false
	}
	var above []ast.Node
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		if n == nil {
			above = above[:len(above)-1]
			return true
		}
		if isFrame(n) && len(above) > 0 {
			uses++
			if !passesOn(above[len(above)-1], n) {
				t.Errorf("%s: a frame is looked into; its kind comes with it", f.fset.Position(n.Pos()))
			}
			return false
		}
		above = append(above, n)
		return true
	})
	return uses
}

// passesOn reports whether the node around a frame's bytes only forwards them.
func passesOn(around, n ast.Node) bool {
	switch a := around.(type) {
	case *ast.CallExpr:
		return passesFramesOn[called(a.Fun)]
	case *ast.CompositeLit, *ast.KeyValueExpr, *ast.AssignStmt, *ast.ReturnStmt:
		return true
	case *ast.SelectorExpr:
		return a.X != n // a method with the same name
	}
	return false
}

func called(fun ast.Expr) string {
	switch f := fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		if x, ok := f.X.(*ast.Ident); ok && (x.Name == "bytes" || x.Name == "frame" || x.Name == "strings" || x.Name == "json" || x.Name == "mem") {
			return x.Name + "." + f.Sel.Name
		}
		return f.Sel.Name
	}
	return ""
}
