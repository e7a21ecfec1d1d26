package godwit_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	godwit "godwit.dev/godwit/clients/go"
)

// demo starts a server like "godwit serve --dev" for one example, and returns its URL.
func demo() (url string, stop func()) {
	dir, err := os.MkdirTemp("", "godwit-example-")
	if err != nil {
		log.Panic(err)
	}
	s, err := startServer(dir, nil)
	if err != nil {
		log.Panic(err)
	}
	return s.url(), func() {
		if err := s.stop(); err != nil {
			log.Panic(err)
		}
		if err := os.RemoveAll(dir); err != nil {
			log.Panic(err)
		}
	}
}

// A back end publishes; the call returns once the notification is on the server's disk.
func ExampleClient_Publish() {
	url, stop := demo()
	defer stop()

	client, err := godwit.New(url, godwit.WithAPIKey("dev"))
	if err != nil {
		log.Panic(err)
	}
	defer client.Close()

	receipt, err := client.Publish(context.Background(), godwit.Publication{
		To:    "driver-42",
		ID:    "ride-9f3",
		Title: "New ride",
		Body:  "2.1 km away",
		Data:  []byte(`{"fare":120}`),
		TTL:   30 * time.Second,
	})
	if err != nil {
		log.Panic(err)
	}
	fmt.Println(receipt.ID, receipt.Status)
	// Output: ride-9f3 stored
}

// A recipient's program listens; returning nil acknowledges, and the back end gets an event about it.
func ExampleClient_Listen() {
	url, stop := demo()
	defer stop()

	client, err := godwit.New(url, godwit.WithAPIKey("dev"))
	if err != nil {
		log.Panic(err)
	}
	defer client.Close()

	ctx, cancel := context.WithCancel(context.Background())
	listening := make(chan error)
	go func() {
		listening <- client.Listen(ctx, "driver-42", func(_ context.Context, n *godwit.Notification) error {
			fmt.Printf("%s: %s\n", n.Title, n.Body)
			return nil
		})
	}()

	receipt, err := client.Publish(ctx, godwit.Publication{To: "driver-42", Title: "New ride", Body: "2.1 km away"})
	if err != nil {
		log.Panic(err)
	}
	status, err := client.Wait(ctx, receipt.ID, receipt.To)
	if err != nil {
		log.Panic(err)
	}
	fmt.Println(status.Status)

	cancel()
	<-listening
	// Output:
	// New ride: 2.1 km away
	// acked
}

// PublishBatch sends many notifications in as few requests as possible. An invalid one does not affect the others.
func ExampleClient_PublishBatch() {
	url, stop := demo()
	defer stop()

	client, err := godwit.New(url, godwit.WithAPIKey("dev"))
	if err != nil {
		log.Panic(err)
	}
	defer client.Close()

	receipts, err := client.PublishBatch(context.Background(), []godwit.Publication{
		{To: "driver-1", Title: "Shift begins"},
		{To: "driver 2", Title: "Shift begins"},
		{To: "driver-3", Title: "Shift begins"},
	})
	if err != nil {
		log.Panic(err)
	}
	for _, r := range receipts {
		if r.Err != nil {
			fmt.Println(r.Err)
			continue
		}
		fmt.Println(r.To, r.Status)
	}
	// Output:
	// driver-1 stored
	// server answered 400: to: contains ' ' at byte 7; allowed are A-Z a-z 0-9 . _ : @ + -
	// driver-3 stored
}

// Withdrawing a notification takes it off the screens that show it.
func ExampleClient_Recall() {
	url, stop := demo()
	defer stop()

	client, err := godwit.New(url, godwit.WithAPIKey("dev"))
	if err != nil {
		log.Panic(err)
	}
	defer client.Close()

	ctx := context.Background()
	if _, err := client.Publish(ctx, godwit.Publication{To: "driver-42", ID: "ride-9f3", Title: "New ride"}); err != nil {
		log.Panic(err)
	}
	if err := client.Recall(ctx, "ride-9f3"); err != nil {
		log.Panic(err)
	}
	status, err := client.Status(ctx, "ride-9f3", "driver-42")
	if err != nil {
		log.Panic(err)
	}
	fmt.Println(status.Status)
	// Output: recalled
}

// Events lists the app's events, from now on or after a given one.
func ExampleClient_Events() {
	url, stop := demo()
	defer stop()

	client, err := godwit.New(url, godwit.WithAPIKey("dev"))
	if err != nil {
		log.Panic(err)
	}
	defer client.Close()

	ctx := context.Background()
	if _, err := client.Publish(ctx, godwit.Publication{To: "driver-42", ID: "ride-9f3", Title: "Hi"}); err != nil {
		log.Panic(err)
	}
	for event, err := range client.Events(ctx, "0", "stored", "acked") {
		if err != nil {
			log.Panic(err)
		}
		fmt.Println(event.Type, event.ID, event.To)
		break
	}
	// Output: stored ride-9f3 driver-42
}

// If tokens expire, a source provides them; Listen calls it again before a token expires.
func ExampleWithTokenSource() {
	fetch := func(context.Context) (godwit.Token, error) {
		// Get a token from the back end here.
		return godwit.Token{Value: "eyJhbGciOi...", Expires: time.Now().Add(time.Hour)}, nil
	}
	client, err := godwit.New("https://godwit.example.org", godwit.WithTokenSource(fetch))
	if err != nil {
		log.Panic(err)
	}
	defer client.Close()
	// client.Listen(ctx, "driver-42", handler)
}

// A back end puts a new version of an object, and lists which clients have received it.
func ExampleClient_PutObject() {
	url, stop := demo()
	defer stop()

	client, err := godwit.New(url, godwit.WithAPIKey("dev"))
	if err != nil {
		log.Panic(err)
	}
	defer client.Close()

	ctx := context.Background()
	result, err := client.PutObject(ctx, "region-1", "camera-config", godwit.ObjectPut{Version: 7, Payload: []byte(`{"iso":400}`)})
	if err != nil {
		log.Panic(err)
	}
	fmt.Println(result.Version, result.Changed)

	units, err := client.Registrations(ctx, "region-1", "camera-config")
	if err != nil {
		log.Panic(err)
	}
	for _, unit := range units {
		fmt.Println(unit.Recipient, unit.Device, unit.AckedVersion)
	}
	// Output: 7 true
}

// A unit follows objects. With a device and a state file it can be offline for weeks; when it returns, one message for each changed object
// suffices.
func ExampleFollow() {
	url, stop := demo()
	defer stop()

	client, err := godwit.New(url, godwit.WithAPIKey("dev"))
	if err != nil {
		log.Panic(err)
	}
	defer client.Close()

	ctx, cancel := context.WithCancel(context.Background())
	if _, err := client.PutObject(ctx, "region-1", "camera-config", godwit.ObjectPut{Version: 7}); err != nil {
		log.Panic(err)
	}

	objects, err := godwit.NewObjects("region-1") // godwit.StateFile("registrations.json") outlives the program
	if err != nil {
		log.Panic(err)
	}
	err = objects.Register(func(_ context.Context, s *godwit.Signal) error {
		fmt.Println(s.Object, "is at version", s.Version)
		cancel()
		return nil
	}, "camera-config")
	if err != nil {
		log.Panic(err)
	}
	_ = client.Listen(ctx, "observer-1", nil, godwit.Follow(objects), godwit.Device("unit"))
	// Output: camera-config is at version 7
}

// A program subscribes to topics; a back end publishes to one.
func ExampleTopics() {
	url, stop := demo()
	defer stop()

	client, err := godwit.New(url, godwit.WithAPIKey("dev"))
	if err != nil {
		log.Panic(err)
	}
	defer client.Close()

	ctx, cancel := context.WithCancel(context.Background())
	topics := godwit.NewTopics(func(_ context.Context, m *godwit.Message) {
		fmt.Printf("%s: %s\n", m.Topic, m.Data)
		cancel()
	})
	if err := topics.Subscribe("rides.*"); err != nil {
		log.Panic(err)
	}
	listening := make(chan error)
	go func() { listening <- client.Listen(ctx, "driver-42", nil, godwit.Subscriptions(topics)) }()

	if err := topics.Active(ctx); err != nil {
		log.Panic(err)
	}
	if err := client.PublishMessage(context.Background(), godwit.Message{Topic: "rides.oslo", Data: []byte(`{"fare":120}`)}); err != nil {
		log.Panic(err)
	}
	<-listening
	// Output: rides.oslo: {"fare":120}
}
