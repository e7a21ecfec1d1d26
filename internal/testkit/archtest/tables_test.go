package archtest

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var underHead = regexp.MustCompile(`^\|[ :|-]+\|$`)

// broken returns the lines of a page that begin a table without a head: an empty line has cut them off the table above.
func broken(page string) (lines []int) {
	before, code := "", false
	all := strings.Split(page, "\n")
	for i, line := range all {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			code = !code
		}
		if !code && strings.HasPrefix(line, "|") && !strings.HasPrefix(before, "|") && (i+1 == len(all) || !underHead.MatchString(strings.TrimSpace(all[i+1]))) {
			lines = append(lines, i+1)
		}
		before = line
	}
	return lines
}

func TestTablesOfTheDocumentationAreWhole(t *testing.T) {
	if got := broken("| a |\n|---|\n| b |\n\n| c |\n"); len(got) != 1 || got[0] != 5 {
		t.Errorf("the row behind an empty line is not found: %v", got)
	}
	pages := 0
	err := filepath.WalkDir(filepath.Join("..", "..", "..", "docs"), func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(name) != ".md" {
			return err
		}
		text, err := os.ReadFile(name)
		for _, line := range broken(string(text)) {
			t.Errorf("%s:%d: the row belongs to no table", name, line)
		}
		pages++
		return err
	})
	if err != nil || pages < 50 {
		t.Errorf("%d pages, %v", pages, err)
	}
}
