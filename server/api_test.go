package server_test

import (
	"bytes"
	"flag"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/printer"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var accept = flag.Bool("accept-api", false, "write what the package exports to api.txt")

// Programs depend on the package's exported names. To accept a deliberate change, run the test with -accept-api, which records the change
// in the committed list.
func TestExportedAPIIsTheCommittedOne(t *testing.T) {
	const file = "api.txt"
	got := exported(t)
	if *accept {
		if err := os.WriteFile(file, got, 0o644); err != nil { // a source file
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("the package exports\n%s\nand %s has\n%s\nIf that is meant: go test ./server -run ExportedAPI -accept-api", got, file, want)
	}
}

// exported lists the exported declarations of the package, without comments and bodies.
func exported(t *testing.T) []byte {
	t.Helper()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	p, err := doc.NewFromFiles(fset, files, "godwit.dev/godwit/server")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	show := func(decl any) {
		if err := (&printer.Config{Mode: printer.UseSpaces, Tabwidth: 4}).Fprint(&out, fset, decl); err != nil {
			t.Fatal(err)
		}
		out.WriteByte('\n')
	}
	functions := func(list []*doc.Func) {
		for _, f := range list {
			f.Decl.Body = nil
			show(f.Decl)
		}
	}
	functions(p.Funcs)
	for _, typ := range p.Types {
		show(typ.Decl)
		functions(typ.Funcs)
		functions(typ.Methods)
	}
	return out.Bytes()
}
