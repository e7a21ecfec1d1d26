package problem_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"strings"
	"testing"
	"time"

	"godwit.dev/godwit/internal/notify/mailbox"
	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/server/problem"
)

// TestTheRegistryListsEveryType compares Types with the variables in the file.
func TestTheRegistryListsEveryType(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "types.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	declared, listed := map[string]bool{}, map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GenDecl:
			if n.Tok == token.VAR {
				for _, spec := range n.Specs {
					declared[spec.(*ast.ValueSpec).Names[0].Name] = true
				}
			}
			return false
		case *ast.FuncDecl:
			return n.Name.Name == "Types"
		case *ast.CompositeLit:
			for _, e := range n.Elts {
				listed[e.(*ast.Ident).Name] = true
			}
		}
		return true
	})
	for name := range declared {
		if !listed[name] {
			t.Errorf("%s is not in the list of types", name)
		}
	}
	if len(declared) < 40 {
		t.Errorf("found only %d types", len(declared))
	}
}

func TestEveryTypeIsWhole(t *testing.T) {
	pages := map[string]string{}
	for _, is := range problem.Types() {
		slug := is.Slug()
		page, ok := problem.Page(slug)
		if p := is.With("x"); p.Type != "/problems/"+slug || p.Title == "" || p.Status != is.Status() || http.StatusText(p.Status) == "" {
			t.Errorf("%s makes %+v", slug, p)
		}
		if !ok || !strings.HasSuffix(page, ".") {
			t.Errorf("the page of %s is %q", slug, page)
		}
		for other, text := range pages {
			if other != slug && text == page {
				t.Errorf("%s and %s have the same page", slug, other)
			}
		}
		pages[slug] = page
	}
	if _, ok := problem.Page("none"); ok {
		t.Error("there is a page for a problem that there is not")
	}
}

func TestErrorsBecomeProblems(t *testing.T) {
	for _, c := range []struct {
		err  error
		want problem.Problem
	}{
		{
			fmt.Errorf("append: %w", mailbox.ErrNoSpace),
			problem.Problem{Type: "/problems/no-space", Title: "Disk is full", Status: 503, RetryAfter: 30 * time.Second, Detail: "the server has too little free disk space to store this; retry later with the same id"},
		},
		{
			&notification.FieldError{Field: "to", Problem: "is empty"},
			problem.Problem{Type: "/problems/bad-input", Title: "Bad input", Status: 400, Detail: "to: is empty", Field: "to"},
		},
		{
			errors.New("secret"),
			problem.Problem{Type: "/problems/internal", Title: "Internal error", Status: 500, Detail: "the server could not answer; its log says why"},
		},
		{
			fmt.Errorf("ack: %w", problem.Forbidden.With("no")),
			problem.Problem{Type: "/problems/forbidden", Title: "Not allowed", Status: 403, Detail: "no"},
		},
		{
			problem.NotSupported.New(),
			problem.Problem{Type: "/problems/not-supported", Title: "Not supported", Status: 501, Detail: "the store that holds this app's notifications cannot do this"},
		},
	} {
		if got := problem.From(c.err); *got != c.want {
			t.Errorf("%v becomes %+v, want %+v", c.err, *got, c.want)
		}
	}
}

func TestOnlyProblemsOfTheServerAreItsOwnReasons(t *testing.T) {
	own := map[string]bool{}
	for _, is := range problem.Types() {
		own[is.Slug()] = is.New().OfServer()
	}
	for slug, want := range map[string]bool{
		"internal": true, "store-away": true, "store-damaged": true, "not-stored": true, "timeout": true, "no-space": true, "bus-unavailable": true, "busy": true, "unavailable": true,
		"nobody-serves": false, "not-connected": false, "no-answer": false, "worker-gone": false, "workers-busy": false, "bad-answer": false, "auth-unavailable": false,
		"not-supported": false, "closing": false, "canceled": false, "bad-input": false, "not-found": false, "forbidden": false,
	} {
		if got, known := own[slug]; got != want || !known {
			t.Errorf("%s: the server's own reason %t, known %t; want %t", slug, got, known, want)
		}
	}
}
