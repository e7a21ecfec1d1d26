// Command site writes the documentation as static files.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"godwit.dev/godwit/internal/server/cli"
	"godwit.dev/godwit/internal/server/cli/command"
	"godwit.dev/godwit/internal/server/docsite"
)

func main() {
	out := flag.String("o", "dist/site", "folder to write")
	flag.Parse()
	if err := write(*out); err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
}

func write(dir string) error {
	pages, err := docsite.Write(dir, os.DirFS("docs"), command.Version, cli.Commands())
	if err != nil {
		return fmt.Errorf("write the documentation: %w", err)
	}
	openAPI, err := os.ReadFile(filepath.Join("api", "openapi.yaml"))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "openapi.yaml"), openAPI, 0o644)
	}
	if err != nil {
		return errors.Join(errors.New("copy the API's description"), err)
	}
	fmt.Printf("%d pages in %s\n", pages, dir)
	return nil
}
