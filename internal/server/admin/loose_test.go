package admin

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/template/parse"
	"unicode"

	"golang.org/x/net/html"
)

// inWords are the attributes whose values people read or hear.
var inWords = []string{"title", "placeholder", "alt", "aria-label", "hx-confirm", "data-label", "data-question"}

// sameInAll are texts that are the same in every language: names, and values of the API.
var sameInAll = []string{"Godwit", "API", "ms", "UTC", "(UTC)", "Firebase", "Apple", "publish", "read", "worker", "admin", "origin", "since", "csv", "k"}

// braced is what stands in {{…}}. Strings within may have braces.
var braced = regexp.MustCompile("(?s)\\{\\{(?:\"(?:[^\"\\\\]|\\\\.)*\"|`[^`]*`|[^}\"`]|\\}[^}])*\\}\\}")

// TestNoTemplateHasLooseText checks that everything that people read on a page goes through t, tn, th or tnh, so that it can be said in
// other languages.
func TestNoTemplateHasLooseText(t *testing.T) {
	files, err := filepath.Glob("templates/*.html")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d templates: %v", len(files), err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, loose := range looseTexts(braced.ReplaceAllString(string(b), "\uFFFC")) {
			t.Errorf("%s: %q is loose: write {{t %q}}", file, loose, loose)
		}
	}
	eachCommand(t, func(file string, c *parse.CommandNode) {
		name, ok := c.Args[0].(*parse.IdentifierNode)
		if ok && !slices.Contains([]string{"or", "and", "with", "if"}, name.Ident) {
			return // an argument of a function, which says it if it is a text
		}
		for _, arg := range c.Args {
			if s, ok := arg.(*parse.StringNode); ok && !isCall(s.Text) && hasWords(s.Text) {
				t.Errorf("%s: %q is loose: write (t %q)", file, s.Text, s.Text)
			}
		}
	})
}

// isCall reports whether a text is a call of the API, or a command.
func isCall(s string) bool {
	method, _, _ := strings.Cut(s, " ")
	return slices.Contains([]string{"GET", "PUT", "POST", "godwit"}, method)
}

func hasWords(s string) bool {
	s = strings.TrimFunc(strings.ReplaceAll(s, "\uFFFC", ""), func(r rune) bool { return unicode.IsSpace(r) || r == '·' })
	return s != "" && !slices.Contains(sameInAll, s) && strings.ContainsFunc(s, unicode.IsLetter)
}

// looseTexts returns the texts of a template without its actions.
func looseTexts(page string) (loose []string) {
	page = strings.NewReplacer("<noscript>", "", "</noscript>", "").Replace(page) // its content would be one text
	z := html.NewTokenizer(strings.NewReader(page))
	quiet := 0 // depth of elements whose text is for programs
	for {
		switch kind := z.Next(); kind {
		case html.ErrorToken:
			return loose
		case html.TextToken:
			if text := string(z.Text()); quiet == 0 && hasWords(text) {
				loose = append(loose, strings.TrimSpace(text))
			}
		case html.StartTagToken, html.EndTagToken, html.SelfClosingTagToken:
			tag := z.Token()
			if slices.Contains([]string{"code", "kbd", "pre", "script", "style"}, tag.Data) {
				quiet += map[html.TokenType]int{html.StartTagToken: 1, html.EndTagToken: -1}[kind]
			}
			for _, a := range tag.Attr {
				if slices.Contains(inWords, a.Key) && !isExample(a.Val) && hasWords(a.Val) {
					loose = append(loose, a.Val)
				}
			}
		}
	}
}

// isExample reports whether the example in a field is the same in every language: an address, an expression, a name without words.
func isExample(s string) bool { return !isText(s) }

func TestLooseTextIsFound(t *testing.T) {
	for page, want := range map[string]string{
		`<p>Hello <b>{{.Name}}</b></p>`:                       "Hello",
		`<p>{{t "Hello"}} <code>curl</code></p>`:              "",
		`<input placeholder="begins with" value="{{.Name}}">`: "begins with",
		`<input placeholder="https://www.example.org">`:       "",
		`<td data-label="{{t "Name"}}"><kbd>g</kbd></td>`:     "",
		`{{if .Dry}}not yet{{end}}`:                           "not yet",
	} {
		if got := strings.Join(looseTexts(braced.ReplaceAllString(page, "\uFFFC")), "|"); strings.Trim(got, "\uFFFC") != want {
			t.Errorf("%s: %q is loose, want %q", page, got, want)
		}
	}
}
