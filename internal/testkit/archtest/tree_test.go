package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const module = "godwit.dev/godwit"

// source is one Go file of the tree.
type source struct {
	path      string // from the root of the repository, with slashes
	text      string
	lines     int
	syntax    *ast.File
	fset      *token.FileSet
	generated bool
}

func (s *source) dir() string  { return path.Dir(s.path) }
func (s *source) isTest() bool { return strings.HasSuffix(s.path, "_test.go") }

// imports lists the imports of s. Packages of this module have "./" instead of the module's prefix.
func (s *source) imports() []string {
	var paths []string
	for _, spec := range s.syntax.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue // cannot happen, since the file compiles
		}
		if rest, ok := strings.CutPrefix(p, module+"/"); ok {
			p = "./" + rest
		}
		paths = append(paths, p)
	}
	return paths
}

// tree returns every Go file of the module, without nested modules. It is read once for all tests, which must not change
// it.
func tree(t *testing.T) []*source {
	t.Helper()
	files, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 10 {
		t.Fatalf("found only %d Go files: is this the root of the repository?", len(files))
	}
	return files
}

var parsed = sync.OnceValues(func() ([]*source, error) { return parse(filepath.Join("..", "..", "..")) })

// parse reads the Go files of a module.
func parse(root string) ([]*source, error) {
	var files []*source
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return enter(root, rel, d.Name())
		}
		if !strings.HasSuffix(rel, ".go") {
			return nil
		}
		text, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		fset := token.NewFileSet()
		syntax, err := parser.ParseFile(fset, p, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files = append(files, &source{
			path: filepath.ToSlash(rel), text: string(text), lines: strings.Count(string(text), "\n"),
			syntax: syntax, fset: fset, generated: ast.IsGenerated(syntax),
		})
		return nil
	})
	return files, err
}

func enter(root, rel, name string) error {
	if rel == "." {
		return nil
	}
	if strings.HasPrefix(name, ".") || name == "testdata" || name == "node_modules" {
		return filepath.SkipDir
	}
	if _, err := os.Stat(filepath.Join(root, rel, "go.mod")); err == nil {
		return filepath.SkipDir
	}
	return nil
}
