// Command observatory demonstrates objects: remote observation units that lose contact and, when they are back, get the latest version of
// their objects. It creates a certificate authority and certificates; it starts a Godwit server that identifies units by their
// certificates, a back end that publishes on request, and the units; then it plays a short story with them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o := options{say: func(format string, args ...any) { fmt.Printf(format+"\n", args...) }}
	flag.StringVar(&o.godwit, "godwit", "godwit", "the server's program")
	flag.StringVar(&o.python, "python", "python3", "an interpreter that has the package godwit")
	flag.StringVar(&o.units, "units", "units.py", "the units' program")
	flag.StringVar(&o.dir, "dir", "run", "folder for certificates, data and the units' state")
	flag.StringVar(&o.http, "http-addr", "127.0.0.1:8443", "where the server's API listens")
	flag.StringVar(&o.grpc, "grpc-addr", "127.0.0.1:50051", "where units connect")
	flag.StringVar(&o.backend, "backend-addr", "127.0.0.1:8090", "where the back end listens")
	flag.BoolVar(&o.once, "once", false, "end after the story")
	flag.Parse()
	if err := demo(ctx, &o); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "observatory:", err)
		return 1
	}
	return 0
}
