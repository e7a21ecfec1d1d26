// Command comments prints random comments of the module's code, each with its place and the line below, for people who judge whether they
// are plain. The same seed prints the same comments of the same tree.
package main

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// words is the least number of words of a printed comment.
const words = 6

func main() {
	seed := flag.Uint64("seed", 1, "what draws")
	n := flag.Int("n", 60, "how many comments")
	flag.Parse()
	if err := run(*seed, *n); err != nil {
		fmt.Fprintln(os.Stderr, "comments:", err)
		os.Exit(1)
	}
}

func run(seed uint64, n int) error {
	var all []string
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch name := d.Name(); {
		case err != nil:
			return err
		case d.IsDir() && (name == "node_modules" || name == "testdata" || strings.HasPrefix(name, ".") && name != "."):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go"):
			return nil
		}
		found, err := of(path)
		all = append(all, found...)
		return err
	})
	if err != nil {
		return fmt.Errorf("read comments: %w", err)
	}
	random := rand.New(rand.NewPCG(seed, 0)) // a draw that can be repeated
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	drawn := all[:min(n, len(all))]
	slices.Sort(drawn)
	_, err = fmt.Println(strings.Join(drawn, "\n"))
	return err
}

// of returns the comments of a file.
func of(path string) (found []string, err error) {
	source, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, source, parser.ParseComments)
	if err != nil || ast.IsGenerated(file) {
		return nil, err
	}
	lines := strings.Split(string(source), "\n")
	for _, group := range file.Comments {
		text := strings.TrimSpace(group.Text())
		if len(strings.Fields(text)) < words {
			continue
		}
		from, to := files.Position(group.Pos()), files.Position(group.End())
		code := strings.TrimSpace(lines[min(to.Line, len(lines)-1)])
		if before := strings.TrimSpace(lines[from.Line-1][:from.Column-1]); before != "" { // it stands behind the code
			code = before
		}
		found = append(found, fmt.Sprintf("%s:%d\n    %s\n    > %s", path, from.Line, strings.ReplaceAll(text, "\n", "\n    "), code))
	}
	return found, nil
}
