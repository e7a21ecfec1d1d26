// Command workers demonstrates requests, the gateway and topics: a small shop whose services listen nowhere. Each service is a worker that
// connects to Godwit, two of them as NATS clients. A page calls them all through the gateway and subscribes to the shop's topic.
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
	flag.StringVar(&o.orders, "orders", "orders", "the orders worker's program")
	flag.StringVar(&o.python, "python", "python3", "an interpreter that has nats-py")
	flag.StringVar(&o.here, "here", ".", "folder with stock.py, prices.sh and prices.txt")
	flag.StringVar(&o.dir, "dir", "run", "folder for what the programs print")
	flag.StringVar(&o.http, "http-addr", "127.0.0.1:8080", "where the server listens")
	flag.StringVar(&o.gateway, "gateway-addr", "127.0.0.1:8081", "where the server listens for calls of workers")
	flag.Parse()
	if err := demo(ctx, &o); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "workers:", err)
		return 1
	}
	return 0
}
