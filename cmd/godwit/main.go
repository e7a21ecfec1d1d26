// Command godwit is the notification server and its command line.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"godwit.dev/godwit/internal/server/cli"
)

func main() { os.Exit(run()) }

// run ends the context at the first signal; a second one ends the process at once, as without a handler.
func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	return cli.Run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Environ())
}
