// Command embed is a program with an embedded notification server: it serves its own page and Godwit's API on one address, notifies drivers
// without a network connection, and receives the events of its own publishes.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"time"

	godwit "godwit.dev/godwit/clients/go"
	"godwit.dev/godwit/server"
)

func main() {
	addr, data := flag.String("addr", "127.0.0.1:8080", "address of the page and the API"), flag.String("data", "embed-data", "folder for the server's data")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *addr, *data, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// app is the namespace of this program's recipients.
const app = "rides"

func run(ctx context.Context, addr, data string, out io.Writer) (err error) {
	notifications, err := server.New(server.Options{Data: data, Log: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	if err != nil {
		return err
	}
	if err := notifications.Start(ctx); err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if failed := notifications.Shutdown(ctx); err == nil {
			err = failed
		}
	}()
	if err := notifications.App(ctx, app); err != nil {
		return err
	}

	mux := http.NewServeMux()
	mux.Handle("/", notifications.Handler())
	mux.HandleFunc("POST /rides/{driver}", func(w http.ResponseWriter, r *http.Request) {
		receipt, err := notifications.Publish(r.Context(), app, godwit.Publication{To: r.PathValue("driver"), Title: "New ride"})
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		fmt.Fprintln(w, receipt.ID, receipt.Status)
	})
	var open net.ListenConfig
	ln, err := open.Listen(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	page := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- page.Serve(ln) }()
	defer page.Close()
	fmt.Fprintf(out, "curl -X POST http://%s/rides/office\n", ln.Addr())

	heard, hear := context.WithCancel(ctx)
	defer hear()
	listened := make(chan error, 1)
	go func() {
		listened <- notifications.Listen(heard, app, "office", func(_ context.Context, n *godwit.Notification) error {
			fmt.Fprintln(out, "office got", n.ID, n.Title)
			return nil
		})
	}()
	defer func() {
		hear()
		if cause := <-listened; err == nil && ctx.Err() == nil {
			err = cause
		}
	}()
	select {
	case <-ctx.Done():
		return nil
	case err := <-served:
		return err
	case err := <-notifications.Err():
		return err
	}
}
