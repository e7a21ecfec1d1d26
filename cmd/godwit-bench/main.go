// Command godwit-bench measures a server's speed and resources. The command "godwit bench" runs it.
package main

import (
	"os"

	"godwit.dev/godwit/bench/cli"
	"godwit.dev/godwit/internal/server/cli/command"
)

func main() { os.Exit(command.Main(cli.Run)) }
