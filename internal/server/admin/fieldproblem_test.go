package admin

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"godwit.dev/godwit/internal/notify/notification"
	"godwit.dev/godwit/internal/server/admin/words"
)

// TestEachProblemOfAFieldIsOneOfTheAPI finds texts that the API says in other words by now.
func TestEachProblemOfAFieldIsOneOfTheAPI(t *testing.T) {
	says := make(map[string]bool)
	for _, root := range []string{"../../notify/notification", "../../campaigns", "../../sending", "../../feeds"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(path) != ".go" {
				return err
			}
			f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				return err
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if said, ok := n.(*ast.BasicLit); ok && said.Kind == token.STRING {
					text, _ := literal(said, nil)
					says[fieldKey(text)] = true
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, known := range problemsOfFields {
		if !says[known] {
			t.Errorf("the API does not say %q", known)
		}
	}
}

func TestProblemsOfFieldsAreSaidInTheReadersLanguage(t *testing.T) {
	german := words.Tagged("de")
	for _, c := range []struct{ said, want string }{
		{fieldProblem(german, bad(t, "has %d bytes; at most %d are allowed", 12_345, 4_096)), "Hat 12.345 Bytes; erlaubt sind höchstens 4.096."},
		{fieldProblem(german, bad(t, "%.70q is not a time zone like Europe/Oslo", "Mars/\"Base\"")), `"Mars/\"Base\"" ist keine Zeitzone wie Europe/Oslo.`},
		{fieldProblem(words.English, bad(t, "has %d bytes; at most %d are allowed", 12_345, 4_096)), "Has 12,345 bytes; at most 4,096 are allowed."},
		{fieldProblem(german, bad(t, "is a problem that nobody has translated: %d", 5_000)), "Is a problem that nobody has translated: 5000."},
		{fieldProblem(german, &notification.FieldError{Field: "to", Problem: "is made without parts"}), "Is made without parts."},
	} {
		if c.said != c.want {
			t.Errorf("%s, want %s", c.said, c.want)
		}
	}
}

func bad(t *testing.T, format string, args ...any) *notification.FieldError {
	t.Helper()
	var field *notification.FieldError
	if err := notification.BadField("x", format, args...); !errors.As(err, &field) || strings.Contains(field.Problem, "%!") {
		t.Fatal(err)
	}
	return field
}
