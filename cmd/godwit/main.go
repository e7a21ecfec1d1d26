// Command godwit is the notification server and its command line.
package main

import (
	"os"

	"godwit.dev/godwit/internal/server/cli"
	"godwit.dev/godwit/internal/server/cli/command"
)

func main() { os.Exit(command.Main(cli.Run)) }
