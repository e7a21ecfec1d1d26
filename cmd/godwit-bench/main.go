// Command godwit-bench measures how fast a server is, and what it costs: it is what godwit bench runs.
package main

import (
	"os"

	"godwit.dev/godwit/bench/cli"
	"godwit.dev/godwit/internal/server/cli/command"
)

func main() { os.Exit(command.Main(cli.Run)) }
