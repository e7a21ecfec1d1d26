// Command orders is a worker that accepts orders: an ordinary NATS service, with nats.go and its package micro. It listens nowhere. The
// gateway turns POST /gw/orders/ into a request to orders.post. The worker then sends a request to another worker, the stock, to reserve
// the goods, and publishes to the shop's topic.
package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
)

// app is the prefix of the app's subjects: those of topics and requests begin with godwit.<app>.
const app = "godwit.demo."

// stockAnswers limits the wait for the stock's answer; then the order fails. It is shorter than the gateway's own limit.
const stockAnswers = time.Second

// mostPieces of one order.
const mostPieces = 100

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "orders:", err)
		os.Exit(1)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	nc, err := nats.Connect(os.Getenv("NATS_URL"), nats.Token(os.Getenv("GODWIT_API_KEY")), nats.Name("orders"), nats.MaxReconnects(-1))
	if err != nil {
		return err
	}
	defer nc.Close()
	svc, err := micro.AddService(nc, micro.Config{Name: "orders", Version: "1.0.0", Description: "Takes orders"})
	if err != nil {
		return err
	}
	if err := svc.AddEndpoint("post", micro.HandlerFunc(func(r micro.Request) { post(nc, r) }),
		micro.WithEndpointSubject(app+"r.orders.post"), micro.WithEndpointQueueGroup("orders")); err != nil {
		return err
	}
	if err := nc.Flush(); err != nil {
		return err
	}
	fmt.Println("serving orders.post")
	<-ctx.Done()
	return nc.Drain()
}

// order is an order as requested, with the fields of its answer.
type order struct {
	ID    string `json:"id"`
	Item  string `json:"item"`
	Count int    `json:"count"`
	Who   string `json:"who"`
}

// post answers one request. An error's code is the HTTP status that the caller gets.
func post(nc *nats.Conn, r micro.Request) {
	var o order
	if err := json.Unmarshal(r.Data(), &o); err != nil || !plain(o.Item) || o.Count < 1 || o.Count > mostPieces {
		_ = r.Error("400", `send {"item":"coffee","count":1}`, nil) // who asked may be gone
		return
	}
	// The gateway sets this header to the caller's name. It removes a value that the caller has set.
	o.ID, o.Who = rand.Text()[:8], r.Headers().Get("Godwit-Recipient")
	taken, err := nc.Request(app+"r.warehouse.take."+o.Item, []byte(strconv.Itoa(o.Count)), stockAnswers)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		_ = r.Error("503", "the warehouse is closed: nothing was ordered", nil)
		return
	case err != nil: // the goods may be reserved: do not repeat the request without a check
		_ = r.Error("504", "the warehouse did not answer: "+err.Error(), nil)
		return
	case taken.Header.Get("Godwit-Status") != "200":
		_ = r.Error(taken.Header.Get("Godwit-Status"), string(taken.Data), nil)
		return
	}
	told := nats.NewMsg(app + "t.shop.orders")
	told.Header.Set("Content-Type", "application/json")
	told.Data, _ = json.Marshal(o) // strings and a number
	if err := nc.PublishMsg(told); err != nil {
		fmt.Fprintln(os.Stderr, "tell of order", o.ID, err) // topics are at most once; the order is valid without the message
	}
	_ = r.Respond(told.Data, micro.WithHeaders(micro.Headers{
		"Content-Type": {"application/json"}, "Godwit-Status": {strconv.Itoa(http.StatusCreated)},
	}))
}

// plain reports whether a name can be a token of a subject.
func plain(s string) bool {
	return s != "" && len(s) <= 32 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz-") == ""
}
