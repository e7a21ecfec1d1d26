package archtest

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// nobodys matches addresses at godwit.dev, which is the path of the module and nobody's host.
var nobodys = regexp.MustCompile(`(https?://|@)godwit\.` + `dev`)

func TestNothingLeadsToAnAddressOfNobody(t *testing.T) {
	skipped := []string{".git", ".bin", "node_modules", "dist", "testdata"}
	read := 0
	err := filepath.WalkDir(filepath.Join("..", "..", ".."), func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains(skipped, d.Name()):
			return filepath.SkipDir
		case d.IsDir() || !slices.Contains([]string{".md", ".go", ".yaml", ".yml", ".service", ".toml", ".html", ".ts", ".py", ".php", ".txt", ".tpl"}, filepath.Ext(name)):
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		read++
		if found := nobodys.Find(text); found != nil {
			t.Errorf("%s leads to %s", name, found)
		}
		return nil
	})
	if err != nil || read < 1000 {
		t.Errorf("%d files, %v", read, err)
	}
}
