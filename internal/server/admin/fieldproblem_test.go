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

// literalsBelow returns the texts in the code of folders.
func literalsBelow(t *testing.T, roots ...string) (all []string) {
	t.Helper()
	for _, root := range roots {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				return err
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if said, ok := n.(*ast.BasicLit); ok && said.Kind == token.STRING {
					text, _ := literal(said, nil)
					all = append(all, text)
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// TestEachProblemOfAFieldIsOneOfTheAPI finds texts that the API says in other words by now.
func TestEachProblemOfAFieldIsOneOfTheAPI(t *testing.T) {
	says := map[string]bool{"Channel %s cannot send: channel is not configured.": true, "Channel %s cannot send: channel is disabled.": true, "It is no JSON: %s.": true, "Channel %s is not configured.": true, "Channel %s has no target %s.": true} // of two parts
	for _, text := range literalsBelow(t, "../../notify", "../../campaigns", "../../sending", "../../feeds", "../../access", "../../cluster/setting", "../httpapi", "resource") {
		says[fieldKey(text)] = true
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
		{fieldProblem(german, bad(t, "%s", "channel telegram is not configured: godwit channel set telegram")), "Der Kanal telegram ist nicht eingerichtet."},
		{fieldProblem(words.English, bad(t, "%s", "channel telegram is not configured: godwit channel set telegram")), "Channel telegram is not configured."},
		{fieldProblem(german, bad(t, "%s", `found "x" where a list in brackets is needed at character 12`)), `"x" steht, wo eine Liste in Klammern nötig ist, bei Zeichen 12.`},
		{fieldProblem(german, bad(t, "%s", "found the end where a list in brackets is needed at character 1200")), "Das Ende steht, wo eine Liste in Klammern nötig ist, bei Zeichen 1.200."},
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
