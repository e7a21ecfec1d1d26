// Command genconfig prints the reference page of all settings: go run ./tools/genconfig > docs/reference/config.md.
package main

import (
	"fmt"

	"godwit.dev/godwit/internal/config"
)

func main() { fmt.Print(config.Reference()) }
