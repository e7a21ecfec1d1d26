package admin

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/vorlif/spreak/catalog/po"

	"godwit.dev/godwit/internal/server/admin/words"
)

//go:generate go test -vet=off -run TestCatalogues . -update

// update brings the files of all languages up to date: it adds texts that are missing, without a translation, and removes those that are
// not used any more.
var update = flag.Bool("update", false, "write the files of words/po")

// catalogues are the folder of the files.
const catalogues = "words/po"

// A text of the pages, and where it is used.
type used struct {
	one, many string
	in        []string
}

// textSet holds the texts of all pages by their key.
type textSet map[string]*used

func (all textSet) add(in, one, many string) {
	if one == "" {
		return
	}
	u := all[one]
	if u == nil {
		u = &used{one: one}
		all[one] = u
	}
	if many != "" {
		u.many = many
	}
	if !slices.Contains(u.in, in) {
		u.in = append(u.in, in)
	}
}

// usedTexts finds the texts of templates, of the package's code, of scripts, and the words of tables.
func usedTexts(t *testing.T) textSet {
	t.Helper()
	all := make(textSet)
	textsOfTemplates(t, all)
	textsOfCode(t, all)
	textsOfAdvice(t, all)
	textsOfTimeline(t, all)
	for _, key := range slices.Sorted(maps.Values(inScripts)) {
		all.add("language.go", key, "")
	}
	textsOfTables(all)
	return all
}

func readCatalogue(t *testing.T, tag string) *po.File {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(catalogues, tag+".po"))
	if err != nil {
		t.Fatal(err)
	}
	f, err := po.Parse(b)
	if err != nil {
		t.Fatalf("%s.po: %v", tag, err)
	}
	return f
}

// TestCatalogues checks that each language says every text of the pages, and no other, with the places for arguments and the elements of
// the English text.
func TestCatalogues(t *testing.T) {
	all := usedTexts(t)
	for _, l := range words.All[1:] {
		t.Run(l.Tag, func(t *testing.T) {
			f := readCatalogue(t, l.Tag)
			if *update {
				bring(t, l.Tag, f, all)
				f = readCatalogue(t, l.Tag)
			}
			compare(t, f, all)
		})
	}
}

func compare(t *testing.T, f *po.File, all textSet) {
	t.Helper()
	known := f.Messages[""]
	for _, key := range slices.Sorted(maps.Keys(all)) {
		u, m := all[key], known[key]
		switch {
		case m == nil:
			t.Errorf("%q of %s is not in the file: go generate ./internal/server/admin adds it", key, u.in[0])
			continue
		case m.IDPlural != u.many:
			t.Errorf("%q has the plural %q, not %q", key, u.many, m.IDPlural)
		case m.Comment != nil && slices.Contains(m.Comment.Flags, "fuzzy"):
			t.Errorf("%q is marked as unsure (fuzzy), and so is shown in English", key)
		}
		forms := 1
		if u.many != "" {
			forms = 2 // of all languages here
		}
		for i := range forms {
			said := m.Str[i]
			if said == "" {
				t.Errorf("%q of %s is not translated (form %d)", key, u.in[0], i)
				continue
			}
			for _, wrong := range unlike(u, said, i) {
				t.Errorf("%q is said as %q: %s", key, said, wrong)
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(known)) {
		if all[key] == nil {
			t.Errorf("nothing uses %q any more: go generate ./internal/server/admin removes it", key)
		}
	}
}

var (
	places   = regexp.MustCompile(`%(?:\[(\d)\])?(?:\.\d+)?([a-zA-Z%])`)
	elements = regexp.MustCompile(`<[^<>]*>|&[a-z]+;|\{\{.*?\}\}`)
)

// unlike says how a translation differs from the text where it must not. The form for one thing may leave its number out.
func unlike(u *used, said string, form int) (all []string) {
	want := u.one
	if form > 0 {
		want = u.many
	}
	wanted, have := arguments(want), arguments(said)
	if u.many != "" && form == 0 {
		delete(wanted, 1)
		delete(have, 1)
	}
	for _, m := range places.FindAllStringSubmatch(said, -1) {
		if !strings.ContainsAny(m[2], "sq%") {
			all = append(all, fmt.Sprintf("%s is no place for an argument: these are %%s, or by number %%[2]s", m[0]))
		}
	}
	if !maps.Equal(wanted, have) {
		all = append(all, fmt.Sprintf("it takes the arguments %v, and the English text %v", have, wanted))
	}
	if !slices.Equal(slices.Sorted(slices.Values(elements.FindAllString(want, -1))), slices.Sorted(slices.Values(elements.FindAllString(said, -1)))) {
		all = append(all, "its elements are others than those of the English text")
	}
	if strings.TrimSpace(said) != said && strings.TrimSpace(want) == want {
		all = append(all, "it has a space at an end")
	}
	return all
}

// arguments counts the places for each argument, by its number.
func arguments(text string) map[int]int {
	all := make(map[int]int)
	next := 1
	for _, m := range places.FindAllStringSubmatch(text, -1) {
		switch {
		case m[2] == "%":
			continue
		case m[1] != "":
			next = int(m[1][0] - '0')
		}
		all[next]++
		next++
	}
	return all
}

// bring writes the file of a language anew, with the translations that it has.
func bring(t *testing.T, tag string, f *po.File, all textSet) {
	t.Helper()
	old := f.Messages[""]
	var sorted []*po.Message
	for _, key := range slices.Sorted(maps.Keys(all)) {
		u := all[key]
		slices.Sort(u.in)
		m := &po.Message{ID: key, IDPlural: u.many, Str: map[int]string{0: ""}, Comment: po.NewComment()}
		if u.many != "" {
			m.Str[1] = ""
		}
		for _, in := range u.in {
			m.Comment.References = append(m.Comment.References, &po.Reference{Path: in})
		}
		if strings.Contains(key, "%") {
			m.Comment.Flags = append(m.Comment.Flags, "c-format")
		}
		if was := old[key]; was != nil {
			if was.Comment != nil {
				m.Comment.Translator = was.Comment.Translator
			}
			for i := range m.Str {
				m.Str[i] = was.Str[i]
			}
		}
		sorted = append(sorted, m)
	}
	slices.SortStableFunc(sorted, func(a, b *po.Message) int { // what is on one page is translated together
		return strings.Compare(a.Comment.References[0].Path, b.Comment.References[0].Path)
	})
	b := new(bytes.Buffer)
	encode(t, b, &po.File{Header: f.Header}, true)
	for i, m := range sorted {
		if i > 0 {
			b.WriteByte('\n')
		}
		one := po.NewFile()
		one.AddMessage(m)
		encode(t, b, one, false)
	}
	if err := os.WriteFile(filepath.Join(catalogues, tag+".po"), append(bytes.TrimRight(b.Bytes(), "\n"), '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}

func encode(t *testing.T, b *bytes.Buffer, f *po.File, header bool) {
	t.Helper()
	e := po.NewEncoder(b)
	e.SetWriteHeader(header)
	if err := e.Encode(f); err != nil {
		t.Fatal(err)
	}
}
