// Command idle measures what an idle session costs the server: the growth of its resident memory divided by the
// sessions, one connection each. It starts a server and opens the sessions from processes of their own.
//
//	go run ./bench/idle -server .bin/godwit -sessions 10000
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"
)

type options struct {
	server     string
	transports string
	sessions   int
	limit      int
	settle     time.Duration
	json       bool

	load, addr string // what a child does
}

func main() {
	var o options
	flag.StringVar(&o.server, "server", "", "server binary; empty: build it")
	flag.StringVar(&o.transports, "transports", "ws,grpc", "transports to measure")
	flag.IntVar(&o.sessions, "sessions", 10000, "sessions to open on each")
	flag.IntVar(&o.limit, "limit", 1024, "exit with 1 if a session costs more bytes; 0: never")
	flag.DurationVar(&o.settle, "settle", 3*time.Minute, "how long the server may take to give the memory of the opening back")
	flag.BoolVar(&o.json, "json", false, "print JSON")
	flag.StringVar(&o.load, "load", "", "hold sessions over this transport (the program starts itself with it)")
	flag.StringVar(&o.addr, "addr", "", "with -load: the server's address")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	run := measureAll
	if o.load != "" {
		run = hold
	}
	if err := run(ctx, &o); err != nil {
		fmt.Fprintln(os.Stderr, "idle:", err)
		os.Exit(1)
	}
}

// figure is the result for one transport.
type figure struct {
	Transport       string  `json:"transport"`
	Sessions        int     `json:"sessions"`
	BeforeKB        int     `json:"before_kb"`
	AfterKB         int     `json:"after_kb"`
	BytesPerSession int     `json:"bytes_per_session"`
	OpenedIn        float64 `json:"opened_in_s"`
	SettledIn       float64 `json:"settled_in_s"`
}

var errTooMuch = errors.New("a session costs more than the limit")

func measureAll(ctx context.Context, o *options) error {
	var tooMuch error
	for _, transport := range strings.Split(o.transports, ",") {
		f, err := measure(ctx, o, transport)
		if err != nil {
			return fmt.Errorf("%s: %w", transport, err)
		}
		if o.json {
			if err := json.NewEncoder(os.Stdout).Encode(f); err != nil {
				return err
			}
		} else {
			fmt.Printf("%-5s %d sessions: %d bytes each (%d KB before, %d KB after; opened in %.1f s, settled in %.0f s)\n",
				f.Transport, f.Sessions, f.BytesPerSession, f.BeforeKB, f.AfterKB, f.OpenedIn, f.SettledIn)
		}
		if o.limit > 0 && f.BytesPerSession > o.limit {
			tooMuch = fmt.Errorf("%s: %w of %d bytes", transport, errTooMuch, o.limit)
		}
	}
	return tooMuch
}
