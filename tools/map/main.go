// Command map prints each package of the module with the first sentence of its comment, so that this map of the code never goes stale.
package main

import (
	"bufio"
	"fmt"
	"go/doc"
	"os"
	"os/exec"
	"strings"
	"text/tabwriter"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "map:", err)
		os.Exit(1)
	}
}

func run() error {
	out, err := exec.Command("go", "list", "-f", "{{.ImportPath}}\t{{.Doc}}", "./...").Output() //nolint:noctx // a short-lived tool
	if err != nil {
		return fmt.Errorf("list packages: %w", err)
	}
	var (
		pkg   doc.Package
		table = tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
		lines = bufio.NewScanner(strings.NewReader(string(out)))
	)
	for lines.Scan() {
		path, text, _ := strings.Cut(lines.Text(), "\t")
		name := strings.TrimPrefix(strings.TrimPrefix(path, "godwit.dev/godwit"), "/")
		if name == "" {
			name = "."
		}
		fmt.Fprintf(table, "%s\t%s\n", name, pkg.Synopsis(text))
	}
	return table.Flush()
}
