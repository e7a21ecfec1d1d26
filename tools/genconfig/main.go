// Command genconfig writes the reference page of all settings from the settings' definitions.
package main

import (
	"flag"
	"fmt"
	"os"

	"godwit.dev/godwit/internal/server/app"
	"godwit.dev/godwit/internal/server/config"
	"godwit.dev/godwit/internal/server/modules"
)

func main() {
	out := flag.String("o", "", "file to write; standard output if empty")
	flag.Parse()
	if err := write(*out, config.Reference(app.Sections(modules.All())...)); err != nil {
		fmt.Fprintln(os.Stderr, "genconfig:", err)
		os.Exit(1)
	}
}

func write(name, page string) error {
	if name == "" {
		_, err := fmt.Print(page)
		return err
	}
	return os.WriteFile(name, []byte(page), 0o644)
}
