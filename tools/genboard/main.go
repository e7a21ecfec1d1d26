// Command genboard writes the Grafana board, the Prometheus alerts and the page of all metrics. It starts a server and reads the names of
// its metrics: an expression with any other name is an error.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"godwit.dev/godwit/internal/server/app"
	"godwit.dev/godwit/internal/server/config"
	"godwit.dev/godwit/internal/server/metrics"
)

func main() {
	out := flag.String("o", "", "folder with grafana/ and prometheus/")
	page := flag.String("page", "", "file of the page of all metrics")
	flag.Parse()
	if err := run(*out, *page); err != nil {
		fmt.Fprintln(os.Stderr, "genboard:", err)
		os.Exit(1)
	}
}

func run(out, page string) error {
	known, err := described()
	if err != nil {
		return err
	}
	n := names(known)
	board, err := boardJSON(n)
	if err != nil {
		return err
	}
	alerts, err := rulesYAML(n)
	if err != nil {
		return err
	}
	for name, b := range map[string][]byte{
		filepath.Join(out, "grafana", "godwit.json"):       board,
		filepath.Join(out, "prometheus", "rules.yml"):      alerts,
		filepath.Join(out, "prometheus", "rules_test.yml"): trialsYAML(),
		page: reference(known),
	} {
		if err := os.WriteFile(name, b, 0o644); err != nil { // for everybody to read
			return err
		}
	}
	return nil
}

// described returns the metrics that a server describes if every listener that needs no further settings is on.
func described() (list []metrics.Described, err error) {
	dir, err := os.MkdirTemp("", "godwit-genboard")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	cfg := config.Default()
	cfg.Data, cfg.Dev = dir, true
	cfg.HTTPAddr, cfg.GRPCAddr, cfg.NATSAddr = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	ctx, cancel := context.WithTimeoutCause(context.Background(), time.Minute, errors.New("the server took more than a minute"))
	defer cancel()
	a, err := app.Start(ctx, cfg, app.Options{Log: slog.New(slog.DiscardHandler), Version: "0"})
	if err != nil {
		return nil, err
	}
	return a.Metrics(), a.Stop(ctx)
}
