package main

import (
	"bytes"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// draw runs the tool on the sample.
func draw(t *testing.T, survivors string) (out string, err error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "survivors.txt")
	if err := os.WriteFile(file, []byte(survivors), 0o600); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	d := drawing{patterns: []string{"./testdata/sample"}, count: 100, seed: 1, survivors: file, out: &b}
	err = d.draw(t.Context())
	return b.String(), err
}

const inSample = "tools/mutate/testdata/sample/sample.go "

// untested are the mutants of a function without a test, and one that no test can notice.
const untested = inSample + "Untested negated: a < b && len(\"x\") <= b\n\taccepted: it is a sample\n" +
	inSample + "Untested dropped: a < b && len(\"x\") <= b\n\taccepted: it is a sample\n" +
	inSample + "Untested bound: a < b\n\taccepted: it is a sample\n" +
	inSample + "Untested bound: len(\"x\") <= b\n\taccepted: it is a sample\n"

func TestUnnoticedMutantIsFound(t *testing.T) {
	out, err := draw(t, untested)
	if err == nil || !strings.HasSuffix(err.Error(), "\n"+inSample+"Half bound: n > 100") || strings.Contains(err.Error(), "Untested") {
		t.Errorf("%v\n%s", err, out)
	}
	for _, name := range []string{"Half negated: n%2 != 0", "Half dropped: n%2 != 0", "Half negated: n > 100", "Half dropped: n > 100", "Query negated: all", "Query dropped: all", "Query no filter: "} {
		if !strings.Contains(out, "noticed  "+inSample+name) {
			t.Errorf("not noticed: %s", name)
		}
	}
	out, err = draw(t, untested+inSample+"Half bound: n > 100\n\tequivalent: half of 100 is 50 as well\n")
	if err == nil || err.Error() != "more than 10 % survive" || !strings.Contains(out, "12 mutants, 1 of them equivalent; 4 of the other 11 survive") {
		t.Errorf("with all of them judged: %v\n%s", err, out)
	}
}

func TestADrawCanBeHadAgain(t *testing.T) {
	src, err := os.ReadFile("testdata/sample/sample.go")
	if err != nil {
		t.Fatal(err)
	}
	names := func(seed uint64) (all string) {
		points, err := find("sample.go", "sample", src)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range pick(points, 5, seed) {
			all += p.String() + "\n"
		}
		return all
	}
	first, again, other := names(1), names(1), names(2)
	if first != again || first == other || strings.Count(first, "\n") != 5 {
		t.Errorf("seed 1 draws\n%s\nand\n%s\nseed 2\n%s", first, again, other)
	}
}

func TestEachPlaceHasItsName(t *testing.T) {
	const src = "package x\n\nfunc f(err error) {\n\tif err != nil {\n\t}\n\tif err != nil {\n\t}\n\tif err != nil {\n\t}\n}\n"
	points, err := find("x.go", "x", []byte(src))
	if err != nil || len(points) != 3 {
		t.Fatal(points, err)
	}
	for i, want := range []string{"err != nil", "err != nil (2)", "err != nil (3)"} {
		if got := points[i].String(); got != "x.go f negated: "+want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestQueriesLoseTheirApp(t *testing.T) {
	for query, want := range map[string]string{
		"WHERE app = ? AND id = ?":         "WHERE ? IS NOT NULL AND id = ?",
		"FROM e WHERE e.app = ?":           "FROM e WHERE ? IS NOT NULL",
		"WHERE id = ?1 AND app = ?2":       "WHERE id = ?1 AND (app = ?2 OR ?2 IS NOT NULL)",
		"UPDATE e SET app = ?, id = ?":     "",
		"UPDATE e SET app=? WHERE app = ?": "UPDATE e SET app=? WHERE ? IS NOT NULL",
	} {
		src := "package x\n\nfunc f() string { return `" + query + "` }\n"
		points, err := find("x.go", "x", []byte(src))
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, p := range points {
			_, after := p.around([]byte(src))
			got, _ = strconv.Unquote(strings.Trim(after, ", )"))
		}
		if got != want {
			t.Errorf("%s becomes %q, want %q", query, got, want)
		}
	}
}

func TestMutantsInMutantsCompile(t *testing.T) {
	const src = "package x\n\nfunc f(a, b []int) bool {\n\tif !(len(a) < len(b)) || a[0] <=\n\t\tb[0] {\n\t\treturn true\n\t}\n\treturn len(a) > 1 && len(b) >= g()\n}\n"
	points, err := find("x.go", "x", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range points {
		p.number = i + 1
	}
	if len(points) != 5 { // g may have side effects, so it is not called twice
		t.Errorf("%d points: %v", len(points), points)
	}
	out, err := rewrite([]byte(src), points)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parser.ParseFile(token.NewFileSet(), "", out, 0); err != nil || bytes.Count(out, []byte("\n")) != strings.Count(src, "\n") {
		t.Errorf("%v in\n%s", err, out)
	}
}

func TestSurvivorsAreJudgedInWords(t *testing.T) {
	for text, ok := range map[string]bool{
		"# said\n\na\n\tequivalent: x\n": true, "a\n\taccepted: y\nb\n\tequivalent: x\n": true, "a\n": false, "a\n\tgood\n": false, "\tequivalent: x\n": false,
	} {
		file := filepath.Join(t.TempDir(), "s")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readSurvivors(file); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestSurvivorsFitTheCode fails if a judged place no longer exists.
func TestSurvivorsFitTheCode(t *testing.T) {
	judged, err := readSurvivors("survivors.txt")
	if err != nil {
		t.Fatal(err)
	}
	for name := range judged {
		file, _, _ := strings.Cut(name, " ")
		src, err := os.ReadFile(filepath.Join("..", "..", file))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		points, err := find(file, "", src)
		if err != nil {
			t.Fatal(err)
		}
		there := false
		for _, p := range points {
			there = there || p.String() == name
		}
		if !there {
			t.Errorf("the code has no such place any more: %s", name)
		}
	}
}
