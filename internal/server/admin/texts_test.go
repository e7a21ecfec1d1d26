package admin

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"text/template/parse"
)

// textsOfTemplates finds the texts that templates say with t, tn, th, tnh, and those of the fields of forms.
func textsOfTemplates(t *testing.T, all textSet) {
	t.Helper()
	eachCommand(t, func(file string, c *parse.CommandNode) {
		name, ok := c.Args[0].(*parse.IdentifierNode)
		if !ok {
			return
		}
		at := func(i int) string {
			if i < len(c.Args) {
				if s, ok := c.Args[i].(*parse.StringNode); ok {
					return s.Text
				}
			}
			return ""
		}
		switch name.Ident {
		case "t", "th":
			all.add(file, at(1), "")
		case "tn", "tnh":
			all.add(file, at(2), at(3))
		case "more":
			all.add(file, at(3), "")
		case "line":
			for i := 3; i+1 < len(c.Args); i += 2 {
				if said := at(i + 1); at(i) == "hint" || at(i) == "placeholder" && isText(said) {
					all.add(file, said, "")
				}
			}
		case "choice":
			for i := 4; i < len(c.Args); i += 2 {
				all.add(file, at(i), "")
			}
		}
	})
}

// isText reports whether an example in a field is in words: it has some, and is none of JSON or of an expression.
func isText(s string) bool { return strings.Contains(s, " ") && !strings.ContainsAny(s, `={/`) }

// eachCommand walks through the commands of all templates: what stands in {{…}}.
func eachCommand(t *testing.T, do func(file string, c *parse.CommandNode)) {
	t.Helper()
	files, err := filepath.Glob("templates/*.html")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d templates: %v", len(files), err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		tree := parse.New(file)
		tree.Mode = parse.SkipFuncCheck
		set := make(map[string]*parse.Tree)
		if _, err := tree.Parse(string(b), "", "", set); err != nil {
			t.Fatal(err)
		}
		for _, one := range set {
			if one.Root != nil {
				walk(one.Root, func(c *parse.CommandNode) { do(file, c) })
			}
		}
	}
}

// walk visits the commands below a node.
func walk(n parse.Node, do func(*parse.CommandNode)) {
	branch := func(b *parse.BranchNode) {
		walk(b.Pipe, do)
		walk(b.List, do)
		if b.ElseList != nil {
			walk(b.ElseList, do)
		}
	}
	switch n := n.(type) {
	case *parse.ListNode:
		for _, child := range n.Nodes {
			walk(child, do)
		}
	case *parse.ActionNode:
		walk(n.Pipe, do)
	case *parse.TemplateNode:
		if n.Pipe != nil {
			walk(n.Pipe, do)
		}
	case *parse.IfNode:
		branch(&n.BranchNode)
	case *parse.RangeNode:
		branch(&n.BranchNode)
	case *parse.WithNode:
		branch(&n.BranchNode)
	case *parse.PipeNode:
		for _, c := range n.Cmds {
			walk(c, do)
		}
	case *parse.CommandNode:
		do(n)
		for _, arg := range n.Args {
			walk(arg, do)
		}
	}
}

// sayers are the functions of the code that say a text, with the place of the text among their arguments. Those with a plural have it next.
var sayers = map[string]struct {
	at     int
	plural bool
}{
	"t": {0, false}, "T": {0, false}, "tn": {1, true}, "N": {1, true}, "mistaken": {1, false}, "badFile": {0, false}, "door": {3, false}, "missing": {1, false}, "blame": {1, false}, "key": {0, false},
}

// textsOfCode finds the texts that the package's code says.
func textsOfCode(t *testing.T, all textSet) {
	t.Helper()
	for _, folder := range []string{".", "words", "resource"} {
		files, err := filepath.Glob(folder + "/*.go")
		if err != nil {
			t.Fatal(err)
		}
		named := make(map[string]string) // texts that are constants
		var parsed []*ast.File
		var names []string
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			parsed, names = append(parsed, f), append(names, filepath.ToSlash(file))
			ast.Inspect(f, func(n ast.Node) bool {
				if v, ok := n.(*ast.ValueSpec); ok && len(v.Names) == len(v.Values) {
					for i := range v.Names {
						if said, ok := literal(v.Values[i], nil); ok {
							named[v.Names[i].Name] = said
						}
					}
				}
				return true
			})
		}
		for i, f := range parsed {
			ast.Inspect(f, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok {
					textOfCall(names[i], call, named, all)
				}
				return true
			})
		}
	}
}

// advising are the files outside the package that say what needs attention, and their function that does; "": all do.
var advising = map[string]string{"../watch/warnings.go": "", "../../cluster/views.go": "String", "../app/figures/nodes.go": "why", "../../gateway/pushgate/page.go": ""}

// textsOfAdvice finds the texts about what needs attention: all literals of a few words.
func textsOfAdvice(t *testing.T, all textSet) {
	t.Helper()
	for file, in := range advising {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && (in == "" || fn.Name.Name == in) {
				found += literals(file, fn, all)
			}
		}
		if found == 0 {
			t.Errorf("%s says nothing any more", file)
		}
	}
}

// literals adds the texts of a function, and returns how many there are.
func literals(file string, fn *ast.FuncDecl, all textSet) (found int) {
	plural := make(map[string]bool)
	ast.Inspect(fn, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr: // counted(n, about, hint, one, many)
			if name, ok := n.Fun.(*ast.Ident); ok && name.Name == "counted" {
				one, _ := literal(n.Args[3], nil)
				many, _ := literal(n.Args[4], nil)
				all.add(file, one, many)
				plural[one], plural[many] = true, true
			}
		case *ast.BasicLit:
			if said, ok := literal(n, nil); ok && strings.Contains(said, " ") && !plural[said] {
				all.add(file, said, "")
				found++
			}
		}
		return true
	})
	return found
}

// textsOfTimeline finds the texts about what happened to a notification.
func textsOfTimeline(t *testing.T, all textSet) {
	t.Helper()
	files, err := filepath.Glob("../../notify/timeline/*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				if name, ok := call.Fun.(*ast.Ident); ok && name.Name == "phrase" {
					if said, ok := literal(call.Args[0], nil); ok && said != "%s" {
						all.add(filepath.ToSlash(file), said, "")
					}
				}
			}
			return true
		})
	}
}

// onlyArgument is a text that says nothing of its own.
var onlyArgument = regexp.MustCompile(`^%s\.?$`)

func textOfCall(file string, call *ast.CallExpr, named map[string]string, all textSet) {
	name := ""
	switch f := call.Fun.(type) {
	case *ast.Ident:
		name = f.Name
	case *ast.SelectorExpr:
		name = f.Sel.Name
	}
	s, ok := sayers[name]
	if !ok || s.at >= len(call.Args) {
		return
	}
	one, ok := literal(call.Args[s.at], named)
	if !ok || onlyArgument.MatchString(one) {
		return
	}
	many := ""
	if s.plural && s.at+1 < len(call.Args) {
		many, _ = literal(call.Args[s.at+1], named)
	}
	if name == "blame" {
		one = sentence(one)
	}
	all.add(file, one, many)
}

// literal returns the text of an expression of literals and named constants.
func literal(e ast.Expr, named map[string]string) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind != token.STRING {
			return "", false
		}
		s, err := strconv.Unquote(e.Value)
		return s, err == nil
	case *ast.Ident:
		s, ok := named[e.Name]
		return s, ok
	case *ast.BinaryExpr:
		a, ok := literal(e.X, named)
		b, also := literal(e.Y, named)
		return a + b, ok && also && e.Op == token.ADD
	}
	return "", false
}
