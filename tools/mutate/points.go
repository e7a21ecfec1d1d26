package main

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// kind is a kind of mistake that mutants make.
type kind string

const (
	negated    kind = "negated"   // a condition means its opposite
	offByOne   kind = "bound"     // < is <=, and so on
	dropped    kind = "dropped"   // a guard that would leave early is removed
	unfiltered kind = "no filter" // a query reads all apps
)

var kinds = []kind{negated, offByOne, dropped, unfiltered}

// point is a place for a mutant: text is put around the code between from and to.
type point struct {
	kind     kind
	file     string // from the root
	pkg      string // import path
	in, what string // function, and source
	again    int    // number of earlier points with the same name
	from, to int
	number   int // number of the mutant, from 1; 0: not drawn
}

// String names a point for survivors.txt: it stays the same while the code around it changes.
func (p *point) String() string {
	s := fmt.Sprintf("%s %s %s: %s", p.file, p.in, p.kind, p.what)
	if p.again > 0 {
		s += fmt.Sprintf(" (%d)", p.again+1)
	}
	return s
}

// ofApp matches the condition that limits a query to one app. A match before a comma sets a column instead.
var ofApp = regexp.MustCompile(`\b((?:\w+\.)?app = (\?\d?))([^\d,]|$)`)

// find lists the points of a file.
func find(file, pkg string, src []byte) ([]*point, error) {
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, file, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var all []*point
	names := map[string]int{}
	for _, decl := range tree.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok || f.Body == nil {
			continue
		}
		add := func(k kind, n ast.Node) {
			p := &point{kind: k, file: file, pkg: pkg, in: nameOf(f), from: set.Position(n.Pos()).Offset, to: set.Position(n.End()).Offset}
			p.what = strings.Join(strings.Fields(string(src[p.from:p.to])), " ")
			name := p.String()
			p.again = names[name]
			names[name]++
			all = append(all, p)
		}
		ast.Inspect(f.Body, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GenDecl:
				return n.Tok != token.CONST
			case *ast.IfStmt:
				add(negated, n.Cond)
				if n.Else == nil && leaves(n.Body) {
					add(dropped, n.Cond)
				}
			case *ast.BinaryExpr:
				if ordered(n.Op) && pure(n.X) && pure(n.Y) {
					add(offByOne, n)
				}
			case *ast.BasicLit:
				if n.Kind == token.STRING && ofApp.MatchString(n.Value) {
					add(unfiltered, n)
				}
			}
			return true
		})
	}
	return all, nil
}

func nameOf(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	of := f.Recv.List[0].Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	if generic, ok := of.(*ast.IndexExpr); ok {
		of = generic.X
	}
	if id, ok := of.(*ast.Ident); ok {
		return id.Name + "." + f.Name.Name
	}
	return f.Name.Name
}

// leaves reports whether a block ends the function or the iteration of a loop.
func leaves(b *ast.BlockStmt) bool {
	if len(b.List) == 0 {
		return false
	}
	switch s := b.List[len(b.List)-1].(type) {
	case *ast.ReturnStmt:
		return true
	case *ast.BranchStmt:
		return s.Tok == token.CONTINUE || s.Tok == token.BREAK
	}
	return false
}

func ordered(op token.Token) bool {
	return op == token.LSS || op == token.LEQ || op == token.GTR || op == token.GEQ
}

// pure reports whether an expression may be evaluated twice.
func pure(e ast.Expr) bool {
	ok := true
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			f, plain := n.Fun.(*ast.Ident)
			ok = ok && plain && slices.Contains([]string{"len", "cap", "min", "max", "int", "int64", "uint64", "uint32"}, f.Name)
		case *ast.UnaryExpr:
			ok = ok && n.Op != token.ARROW
		case *ast.FuncLit:
			ok = false
		}
		return ok
	})
	return ok
}

// around returns the text before and after a point's code, which makes its mutant active when selected.
func (p *point) around(src []byte) (before, after string) {
	is := fmt.Sprintf("mutant__.Is(%d)", p.number)
	switch p.kind {
	case negated:
		return "(" + is + " != (", "))"
	case dropped:
		return "(!" + is + " && (", "))"
	case offByOne:
		e, err := parser.ParseExpr(string(src[p.from:p.to]))
		if err != nil {
			return "", ""
		}
		b := e.(*ast.BinaryExpr)
		text := src[p.from:p.to]
		x, y := text[b.X.Pos()-1:b.X.End()-1], text[b.Y.Pos()-1:b.Y.End()-1]
		return "((", fmt.Sprintf(") != (%s && (%s) == (%s)))", is, oneLine(x), oneLine(y))
	default:
		text, err := strconv.Unquote(string(src[p.from:p.to]))
		if err != nil {
			return "", ""
		}
		all := ofApp.ReplaceAllString(text, "($1 OR $2 IS NOT NULL)$3")
		if strings.Contains(text, "?1") { // numbered parameters may be used twice; others are counted
			return fmt.Sprintf("mutant__.Text(%d, ", p.number), fmt.Sprintf(", %q)", all)
		}
		return fmt.Sprintf("mutant__.Text(%d, ", p.number), fmt.Sprintf(", %q)", ofApp.ReplaceAllString(text, "$2 IS NOT NULL$3"))
	}
}

func oneLine(text []byte) []byte { return bytes.Join(bytes.Fields(text), []byte(" ")) }

// rewrite returns a file's source with the drawn points' mutants in it. No line moves, so that compiler errors still give the lines of
// points.
func rewrite(src []byte, points []*point) ([]byte, error) {
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, "", src, parser.PackageClauseOnly)
	if err != nil {
		return nil, err
	}
	type edit struct {
		at, rank int
		text     string
	}
	name := set.Position(tree.Name.End()).Offset
	edits := []edit{{name, 0, `; import mutant__ "` + switchPackage + `"`}}
	// Outer ones first: points at the same place are opened in this order and closed in reverse.
	points = slices.Clone(points)
	slices.SortStableFunc(points, func(a, b *point) int { return cmp.Or(a.from-b.from, b.to-a.to) })
	for i, p := range points {
		before, after := p.around(src)
		edits = append(edits, edit{p.from, len(points) + i, before}, edit{p.to, -i, after})
	}
	slices.SortStableFunc(edits, func(a, b edit) int { return cmp.Or(a.at-b.at, a.rank-b.rank) })
	var out bytes.Buffer
	at := 0
	for _, e := range edits {
		out.Write(src[at:e.at])
		out.WriteString(e.text)
		at = e.at
	}
	out.Write(src[at:])
	return out.Bytes(), nil
}
