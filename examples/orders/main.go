// Command orders is a shop whose own transactions notify: it places orders in PostgreSQL, and drivers hear of those that were committed.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/jackc/pgx/v5"

	godwit "godwit.dev/godwit/clients/go"
)

const driver = "driver-42"

func main() {
	postgres := flag.String("postgres", "postgres://postgres@localhost:5432/postgres?sslmode=disable", "URL of PostgreSQL, which has wal_level = logical")
	url := flag.String("url", "http://127.0.0.1:8080", "address of a development server: godwit serve --dev")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *url, *postgres, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, url, postgres string, out io.Writer) error {
	c, err := godwit.New(url, godwit.WithAPIKey("dev"), godwit.WithApp("demo"))
	if err != nil {
		return err
	}
	defer c.Close()
	if err := readFrom(ctx, c, postgres); err != nil {
		return err
	}
	db, err := pgx.Connect(ctx, postgres)
	if err != nil {
		return err
	}
	defer db.Close(context.WithoutCancel(ctx))
	if _, err := db.Exec(ctx, "CREATE TABLE IF NOT EXISTS orders (id bigserial PRIMARY KEY, street text NOT NULL)"); err != nil {
		return err
	}

	heard, stop := context.WithCancel(ctx)
	defer stop()
	got := make(chan string, 2)
	listened := make(chan error, 1)
	go func() {
		listened <- c.Listen(heard, driver, func(_ context.Context, n *godwit.Notification) error {
			got <- n.Title + " to " + n.Body
			return nil
		})
	}()
	for _, o := range []struct {
		street string
		paid   bool
	}{{"1 Quay Street", true}, {"2 Nowhere Lane", false}, {"3 Harbour Road", true}} {
		if err := place(ctx, db, o.street, o.paid); err != nil {
			fmt.Fprintf(out, "the order to %s is rolled back: %v\n", o.street, err)
			continue
		}
		fmt.Fprintf(out, "the order to %s is committed\n", o.street)
		select {
		case text := <-got:
			fmt.Fprintf(out, "%s got: %s\n", driver, text)
		case err := <-listened:
			return err
		}
	}
	stop()
	if err := <-listened; err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

var errUnpaid = errors.New("nobody paid")

// place places an order and notifies the driver, both in one transaction: either both happen or neither.
func place(ctx context.Context, db *pgx.Conn, street string, paid bool) error {
	return pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "INSERT INTO orders (street) VALUES ($1)", street); err != nil {
			return err
		}
		message, err := json.Marshal(map[string]any{"to": driver, "title": "New order", "body": street})
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "SELECT pg_logical_emit_message(true, 'godwit.demo', $1::text)", string(message)); err != nil {
			return err
		}
		if !paid {
			return errUnpaid // the order and its notification never were
		}
		return nil
	})
}

// readFrom has the server read PostgreSQL's log, and waits until it does.
func readFrom(ctx context.Context, c *godwit.Client, postgres string) error {
	source := godwit.Call{Method: http.MethodPut, Path: "/v1/sources/orders", Body: map[string]any{"kind": "postgres", "url": postgres}}
	for {
		var now struct{ State, Detail string }
		if err := c.Call(ctx, source, &now); err != nil {
			return err
		}
		switch now.State {
		case "running":
			return nil
		case "failing":
			return errors.New("the server cannot read PostgreSQL: " + now.Detail)
		}
		source = godwit.Call{Method: http.MethodGet, Path: source.Path}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
